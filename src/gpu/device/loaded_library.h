// A shared library that hw4 does not link, since it may not be here: loaded when it is first needed. It stays loaded:
// cuBLAS takes long to load, and the CUDA runtime in it would be taken down while hw4's own goes on.
#pragma once

#include <dlfcn.h>

#include <string>

namespace hw4::gpu {

class LoadedLibrary {
public:
    // "cublas": as the loader finds it, or in the toolkit's usual folder.
    explicit LoadedLibrary(const std::string& name) {
        const std::string so = "lib" + name + ".so";
        for (const std::string& path : {so + ".13", so + ".12", so + ".11", so, "/usr/local/cuda/lib64/" + so})
            if (at_ == nullptr) at_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
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
