import Glibc

/// The Python environment that scripts/setup creates. It contains third-party programs for the tests.
public enum PythonEnvironment {
    /// The path of the Python interpreter.
    public static var python: String {
        let cache = variable("XDG_CACHE_HOME") ?? (variable("HOME") ?? "") + "/.cache"
        return cache + "/otaflash/venv/bin/python"
    }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}
