import Glibc
package import SystemPackage

/// The environment variables of the process, and the folders that they define.
package enum Environment {
    /// Returns the value of an environment variable; nil: the variable is not set, or empty.
    package static func value(_ name: String) -> String? {
        guard let text = getenv(name), text.pointee != 0 else { return nil }
        return String(cString: text)
    }

    /// The folder of the configuration: `$XDG_CONFIG_HOME/otaflash`, or `~/.config/otaflash` if this variable is not
    /// set or has a relative path.
    ///
    /// The value is nil if the home folder is then unknown.
    package static var configurationFolder: FilePath? { folder("XDG_CONFIG_HOME", orElse: ".config") }

    /// The folder of the user's data: `$XDG_DATA_HOME/otaflash`, or `~/.local/share/otaflash` if this variable is not
    /// set or has a relative path.
    ///
    /// The value is nil if the home folder is then unknown.
    package static var dataFolder: FilePath? { folder("XDG_DATA_HOME", orElse: ".local/share") }

    /// The folder for files that may be deleted when the user logs out: `$XDG_RUNTIME_DIR/otaflash`; nil: the variable is not set.
    package static var runtimeFolder: FilePath? { absolute("XDG_RUNTIME_DIR")?.appending("otaflash") }

    /// Returns the state folder: `$OTAFLASH_STATE_DIR`, or `$XDG_STATE_HOME/otaflash` if the first variable is not set. If neither variable
    /// is set, the folder is `~/.local/state/otaflash`.
    ///
    /// - Returns: nil if neither variable is set and the home folder is unknown.
    /// - Throws: `invalidStateFolder` if `OTAFLASH_STATE_DIR` is a relative path, which would depend on the current directory.
    package static func stateFolder() throws(ClientError) -> FilePath? {
        guard let text = value("OTAFLASH_STATE_DIR") else { return folder("XDG_STATE_HOME", orElse: ".local/state") }
        let path = FilePath(text)
        guard path.isAbsolute else {
            throw ClientError(
                .invalidStateFolder, "OTAFLASH_STATE_DIR is '\(text)', which is not an absolute path", path: path)
        }
        return path
    }

    private static func folder(_ name: String, orElse fallback: String) -> FilePath? {
        (absolute(name) ?? home?.appending(FilePath(fallback).components))?.appending("otaflash")
    }

    /// Returns the path in an environment variable; nil if the variable is not set or contains a relative path.
    ///
    /// The XDG base directory specification requires programs to ignore relative paths.
    private static func absolute(_ name: String) -> FilePath? {
        value(name).map { FilePath($0) }.flatMap { $0.isAbsolute ? $0 : nil }
    }

    /// Whether the home folder exists. A service user often has a home folder that does not exist, such as `/nonexistent`.
    package static var hasHome: Bool { home.map { access($0.string, F_OK) == 0 } ?? false }

    private static var home: FilePath? {
        if let home = absolute("HOME") { return home }
        guard let entry = getpwuid(getuid()), let folder = entry.pointee.pw_dir else { return nil }
        return FilePath(String(cString: folder))
    }
}
