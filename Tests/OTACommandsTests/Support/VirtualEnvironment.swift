import Glibc
import SystemPackage

/// The Python environment that scripts/setup makes.
enum VirtualEnvironment {
    static var python: FilePath {
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return FilePath(cache).appending("otaflash/venv/bin/python")
    }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
