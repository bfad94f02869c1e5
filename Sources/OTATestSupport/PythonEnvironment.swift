import Glibc

/// The Python environment that scripts/setup makes, with programs of others to test against.
public enum PythonEnvironment {
    /// The path of its interpreter.
    public static var python: String {
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return cache + "/otaflash/venv/bin/python"
    }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
