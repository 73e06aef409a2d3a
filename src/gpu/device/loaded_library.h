// A shared library that hw4 does not link, since it may not be here: loaded when it is first needed. It stays loaded:
// cuBLAS takes long to load, and the CUDA runtime in it would be taken down while hw4's own goes on.
#pragma once

#include <dlfcn.h>

#include <initializer_list>

namespace hw4::gpu {

class LoadedLibrary {
public:
    // The first of these that the loader finds.
    LoadedLibrary(std::initializer_list<const char*> names) {
        for (const char* name : names)
            if (at_ == nullptr) at_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }

    bool is_here() const { return at_ != nullptr; }

    // False, and null, where the library lacks it.
    template <class Function>
    bool find(Function& function, const char* name) const {
        function = reinterpret_cast<Function>(::dlsym(at_, name));
        return function != nullptr;
    }

private:
    void* at_ = nullptr;
};

} // namespace hw4::gpu
