internal import Glibc
package import SystemPackage

/// Creates folders.
package enum Folder {
    /// Creates a folder and its missing parents. Only the owner can use a new folder. An existing folder is not changed.
    package static func create(_ path: FilePath) throws(Errno) {
        guard mkdir(path.string, 0o700) != 0, errno != EEXIST else { return }
        guard errno == ENOENT, !path.components.isEmpty else { throw Errno(rawValue: errno) }
        try create(path.removingLastComponent())
        guard mkdir(path.string, 0o700) == 0 || errno == EEXIST else { throw Errno(rawValue: errno) }
    }
}
