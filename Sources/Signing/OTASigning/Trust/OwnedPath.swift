internal import Glibc
internal import OTAFirmware
internal import SystemPackage

/// Checks that only root and the caller can change the file or folder at a path. The caller is the user that runs this process.
enum OwnedPath {
    /// The maximum number of symbolic links in one path. This number is the kernel's limit (path_resolution(7)).
    private static let mostLinks = 40

    /// Checks every folder and every symbolic link on the path, and the file or folder at the end of the path.
    ///
    /// Each folder, link and file must belong to root or to the caller. The group and others must not have write access to a folder or to
    /// the file, because they could then replace or change the file. The exception is a sticky folder before the end of the path, such as
    /// `/tmp`: in a sticky folder, other users cannot replace the caller's files.
    ///
    /// A path through `/proc` is an error, because `/proc/self/cwd` leads to the current directory. This directory can contain files from a
    /// stranger. For example, if the caller unpacked an archive in this directory, the unpacked files belong to the caller and would pass
    /// the check.
    ///
    /// - Throws: `no-such-file`, `read-failed`, `relative-trust-path`; `trust-permissions` with the folder, link or file that failed the
    ///   check.
    static func check(_ path: FilePath) throws(KeyError) {
        var place = FilePath("/")
        // The components that are not checked yet, in reverse order, so that popLast() returns the next component.
        var rest = Array(absolute(path).components.reversed())
        var links = 0
        var writable: [FilePath] = []
        try check(place, isLast: false, of: path, &writable)
        while let component = rest.popLast() {
            switch component.kind {
            case .currentDirectory: continue
            // `place` contains no symbolic link, so its parent folder is the path without the last component.
            case .parentDirectory:
                place.removeLastComponent()
                continue
            case .regular: break
            }
            let next = place.appending(component)
            guard try check(next, isLast: false, of: path, &writable) else {
                place = next
                continue
            }
            links += 1
            guard links <= mostLinks else { throw KeyError(.readFailed, "\(path): too many symbolic links") }
            let target = try target(of: next)
            if target.isAbsolute { place = "/" }
            rest += target.components.reversed()
        }
        // A sticky folder may be writable only before the end of the path, so check the end of the path again with `isLast`. The loop
        // cannot do this, because a path can end with `.` or `..`, and the loop does not check these components.
        try check(place, isLast: true, of: path, &writable)
        guard writable.isEmpty else {
            let places = writable.map(\.string)
            let origin = writable == [path] ? "" : " (from \(path))"
            throw KeyError(
                .trustPermissions,
                "other users can write to \(places.joined(separator: ", ")), so they can change the trusted keys\(origin)",
                hint: "chmod go-w \(places.map(\.shellQuoted).joined(separator: " "))")
        }
    }

    /// Checks one folder, link or file on `path`.
    ///
    /// - Parameters:
    ///   - isLast: whether `place` is the end of the path.
    ///   - writable: the list to which this function adds `place` if other users can write to it. The caller reports the whole list in one
    ///     error, so that the user can fix all places with one command.
    /// - Returns: whether `place` is a symbolic link.
    @discardableResult
    private static func check(
        _ place: FilePath, isLast: Bool, of path: FilePath, _ writable: inout [FilePath]
    ) throws(KeyError) -> Bool {
        guard place != "/proc" else {
            throw KeyError(
                .relativeTrustPath, "the trust path \(path) leads through /proc, where paths depend on the process",
                hint: "use the path that this command prints: realpath \(path.string.shellQuoted)")
        }
        var status = stat()
        guard lstat(place.string, &status) == 0 else {
            let error = Errno(rawValue: errno)
            throw KeyError(error.isMissing ? .noSuchFile : .readFailed, "\(place): \(error)")
        }
        let origin = place == path ? "" : " (from \(path))"
        guard [0, geteuid()].contains(status.st_uid) else {
            throw KeyError(
                .trustPermissions,
                "\(place) belongs to the user \(status.st_uid), so that user can change the trusted keys\(origin)",
                hint:
                    "move the keys to a folder that belongs to you or to root; show the owners: namei -l \(path.string.shellQuoted)"
            )
        }
        let type = status.st_mode & S_IFMT
        guard type != S_IFLNK else { return true }
        // A sticky folder may be writable: in a sticky folder, other users cannot rename or delete the files and folders of root and of the
        // caller. The next call of this function checks that the next file or folder on the path belongs to root or to the caller.
        let isSticky = type == S_IFDIR && status.st_mode & S_ISVTX != 0 && !isLast
        if status.st_mode & (S_IWGRP | S_IWOTH) != 0, !isSticky, !writable.contains(place) { writable.append(place) }
        return false
    }

    /// Returns `path` and, if `path` is a symbolic link, also its target. If the target is a link, too, the list continues with the next
    /// target. The last path in the list is not a link.
    ///
    /// - Throws: `read-failed`.
    static func names(of path: FilePath) throws(KeyError) -> [FilePath] {
        var names = [path]
        var last = path
        while isLink(last) {
            guard names.count <= mostLinks else { throw KeyError(.readFailed, "\(path): too many symbolic links") }
            last = last.folder.pushing(try target(of: last))
            names.append(last)
        }
        return names
    }

    private static func isLink(_ path: FilePath) -> Bool {
        var status = stat()
        return lstat(path.string, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    private static func target(of link: FilePath) throws(KeyError) -> FilePath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link.string, &buffer, buffer.count)
        guard count > 0 else { throw KeyError(.readFailed, "\(link): \(Errno(rawValue: errno))") }
        return FilePath(String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }

    private static func absolute(_ path: FilePath) -> FilePath {
        guard !path.isAbsolute, let folder = getcwd(nil, 0) else { return path }
        defer { free(folder) }
        return FilePath(String(cString: folder)).pushing(path)
    }
}
