import Glibc
import SystemPackage

enum Folder {
    /// Makes it where it is not there, and those it lies in; its owner's alone.
    static func create(_ path: FilePath) throws(Errno) {
        guard mkdir(path.string, 0o700) != 0, errno != EEXIST else { return }
        guard errno == ENOENT, !path.components.isEmpty else { throw Errno(rawValue: errno) }
        try create(path.removingLastComponent())
        guard mkdir(path.string, 0o700) == 0 || errno == EEXIST else { throw Errno(rawValue: errno) }
    }
}
