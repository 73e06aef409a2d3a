// A shared library that hw4 does not link, since it may not be here: loaded when it is first needed. It stays loaded:
// cuBLAS takes long to load, and the CUDA runtime in it would be taken down while hw4's own goes on.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace hw4::gpu {

class LoadedLibrary {
public:
    // The first of these files that can be loaded, such as "libnccl.so.2", which the loader finds.
    explicit LoadedLibrary(const std::vector<std::string>& files) {
        for (const std::string& file : files) {
            at_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
            file_ = file;
            if (at_ != nullptr) break;
            if (lacking_.empty()) lacking_ = ::dlerror();
        }
        if (at_ != nullptr) lacking_.clear();
    }

    // Why it cannot be used: the first file with the loader's reason, or a function that it lacks; empty: it can.
    const std::string& lacking() const { return lacking_; }

    // Null where the library lacks it.
    template <class Function>
    void find(Function& function, const char* name) const {
        function = at_ == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(at_, name));
    }
    template <class Function>
    void need(Function& function, const char* name) {
        find(function, name);
        if (function == nullptr && lacking_.empty()) lacking_ = file_ + " lacks " + name;
    }

private:
    void* at_ = nullptr;
    std::string file_;
    std::string lacking_;
};

// "cublas": as the loader finds it, or in the toolkit's usual folder.
inline std::vector<std::string> toolkit_files(const std::string& name) {
    const std::string so = "lib" + name + ".so";
    return {so + ".13", so + ".12", so + ".11", so, "/usr/local/cuda/lib64/" + so};
}

} // namespace hw4::gpu
