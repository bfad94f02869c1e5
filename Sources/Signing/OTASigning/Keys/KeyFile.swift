internal import Glibc
internal import OTAFirmware
public import SystemPackage

/// Reads and writes key files.
public enum KeyFile {
    /// Reads the PEM text of a private key for `PrivateKey(pem:passphrase:)`. The path may name a pipe.
    ///
    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`, `key-too-large`; `not-a-key` for a public key; `key-file-permissions` if the
    ///   group or others have any access to the file.
    public static func privateKeyText(at path: FilePath) throws(KeyError) -> SecretBytes {
        let file = try SmallFile(path)
        let text = try file.contents()
        // If the user gives a public key file by mistake, the error must be `not-a-key`. Other users can usually read a public key file, so
        // `expectPrivate` would throw the misleading error `key-file-permissions`. Therefore this check comes first.
        if (try? ImagePublicKey(pem: text)) != nil { throw isPublic(path) }
        try file.expectPrivate("this private key")
        return text
    }

    /// Reads a file that contains another secret, such as the PIN of a token. The path may name a pipe.
    ///
    /// - Parameter secret: the contents of the file, for the message, such as `this PIN`.
    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`, `key-too-large`; `key-file-permissions` if the group or others have any
    ///   access to the file.
    public static func secretText(at path: FilePath, of secret: String) throws(KeyError) -> SecretBytes {
        let file = try SmallFile(path)
        let text = try file.contents()
        try file.expectPrivate(secret)
        return text
    }

    private static func isPublic(_ path: FilePath) -> KeyError {
        let suffix = ".pub.pem"
        let other = path.string.hasSuffix(suffix) ? String(path.string.dropLast(suffix.count)) + ".pem" : "NAME.pem"
        return KeyError(
            .notAKey, "\(path): this is a public key; a signature needs the private key",
            hint: "use the private key of the same pair: \(other.shellQuoted)")
    }

    /// Reads a public key of any algorithm of `ImagePublicKey` from a PEM file. Only an Ed25519 key can also verify bundles.
    ///
    /// - Parameter option: the command-line option for this file, for the hint of an error.
    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`; the errors of `ImagePublicKey(pem:)` with the path in the message.
    public static func publicKey(at path: FilePath, option: String = "--trust") throws(KeyError) -> ImagePublicKey {
        try SmallFile(path).publicKey(option: option)
    }

    /// Writes the private key to `name`.pem (mode 0600) and the public key to `name`.pub.pem (mode 0644), and returns both paths.
    ///
    /// The umask of the process can remove bits of these modes. If one of the two files already exists, this method throws `output-exists`
    /// and does not overwrite the existing file. If the public key file cannot be written, this method deletes the new private key file.
    ///
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`, `crypto-failed`.
    public static func write(
        _ key: PrivateKey, name: FilePath, passphrase: Passphrase? = nil
    ) throws(KeyError) -> (privateKey: FilePath, publicKey: FilePath) {
        let files = try NewKeyFiles(key, name: name, passphrase)
        try create(files.list)
        return (files.privateKey, files.publicKey)
    }

    /// Writes the key files of a pair: the first key as `name`.pem and `name`.pub.pem, the second key as `name`.ALGORITHM.pem and
    /// `name`.ALGORITHM.pub.pem. Beside each public key, a scope file names the other key of the pair (``TrustScope/partner``).
    ///
    /// This method does not overwrite an existing file. If a file cannot be written, it deletes all files that it wrote.
    ///
    /// - Returns: the paths of the keys, without the scope files.
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`, `crypto-failed`.
    public static func write(
        pair: (PrivateKey, PrivateKey), name: FilePath, passphrase: Passphrase? = nil
    ) throws(KeyError) -> [(privateKey: FilePath, publicKey: FilePath)] {
        let (first, second) = pair
        let secondName = FilePath("\(name).\(second.publicKey.algorithm.name)")
        let files = try [
            NewKeyFiles(first, name: name, passphrase), NewKeyFiles(second, name: secondName, passphrase),
        ]
        // A public key without its scope file would count alone, so the scope files come first.
        let scopes = zip(files, [second, first]).map { files, partner in
            let text =
                "# The key counts only together with the other key of its pair.\nwith = \(partner.publicKey.id)\n"
            return NewKeyFiles.File(
                path: FilePath(files.publicKey.string + TrustScope.suffix), permissions: publicPermissions,
                contents: SecretBytes(copying: Array(text.utf8)))
        }
        try create(scopes + files.flatMap(\.list))
        return files.map { ($0.privateKey, $0.publicKey) }
    }

    /// Writes a public key to `name`.pub.pem (mode 0644) and returns the path. No private key file is written, because the private key is
    /// in another place, such as a token.
    ///
    /// This method does not overwrite an existing file.
    ///
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`, `crypto-failed`.
    public static func write(_ key: ImagePublicKey, name: FilePath) throws(KeyError) -> FilePath {
        let path = try publicPath(name)
        try create([NewKeyFiles.File(path: path, permissions: publicPermissions, contents: key.pem())])
        return path
    }

    /// Checks that `name`.pub.pem does not exist. Call this method before a token creates a key pair. If the file already existed, the
    /// public key of the new key pair could not be written.
    ///
    /// - Throws: `output-exists`; `cannot-create` if `name` is not the name of a file.
    public static func expectNoPublicKey(_ name: FilePath) throws(KeyError) {
        let path = try publicPath(name)
        var status = Glibc.stat()
        guard lstat(path.string, &status) != 0 else { throw KeyError(.exists, "\(path): \(Errno.fileExists)") }
    }

    fileprivate static let publicPermissions: FilePermissions = [.ownerReadWrite, .groupRead, .otherRead]

    /// Creates all files, or none.
    private static func create(_ files: [NewKeyFiles.File]) throws(KeyError) {
        var written: [FilePath] = []
        do throws(KeyError) {
            for file in files {
                try create(file.path, permissions: file.permissions, contents: file.contents)
                written.append(file.path)
            }
        } catch {
            for path in written { unlink(path.string) }
            throw error
        }
        files.first?.path.folder.synchronizeFolder()
    }

    fileprivate static func publicPath(_ name: FilePath) throws(KeyError) -> FilePath {
        guard name.lastComponent?.kind == .regular else {
            throw KeyError(
                .cannotCreate, "'\(name)' is not the name of a file", hint: "give a name: otaflash keygen release")
        }
        return FilePath(name.string + ".pub.pem")
    }

    private static func create(
        _ path: FilePath, permissions: FilePermissions, contents: SecretBytes
    ) throws(KeyError) {
        do throws(SigningError) {
            let file = try OutputFile(path, replaces: false, permissions: permissions)
            try contents.withUnsafeBytes { (bytes) throws(SigningError) in try file.write(bytes, at: 0) }
            try file.commit()
        } catch {
            guard case .refused(let code, let context, let hint) = error else {
                throw KeyError(.writeFailed, "\(path)")
            }
            switch code {
            case .outputExists: throw KeyError(.exists, "\(path): \(Errno.fileExists)")
            case .writeFailed: throw KeyError(.writeFailed, context, hint: hint)
            default: throw KeyError(.cannotCreate, context, hint: hint)
            }
        }
    }
}

/// The files of a new key pair, which are not written yet.
private struct NewKeyFiles {
    struct File {
        let path: FilePath
        let permissions: FilePermissions
        let contents: SecretBytes
    }
    let privateKey, publicKey: FilePath
    let list: [File]

    init(_ key: PrivateKey, name: FilePath, _ passphrase: Passphrase?) throws(KeyError) {
        publicKey = try KeyFile.publicPath(name)
        privateKey = FilePath(name.string + ".pem")
        list = [
            File(path: privateKey, permissions: .ownerReadWrite, contents: try key.pem(passphrase: passphrase)),
            File(path: publicKey, permissions: KeyFile.publicPermissions, contents: try key.publicKey.pem()),
        ]
    }
}

/// An open key file, PIN file or scope file (``TrustScope``).
///
/// The file is opened only once. All checks and the read use this open file, so another process cannot replace the file between a check and
/// the read.
struct SmallFile {
    let path: FilePath
    let status: Stat
    private let file: OpenFile

    /// Opens a file and reads its status.
    ///
    /// - Throws: `no-such-file`, `read-failed`.
    init(_ path: FilePath) throws(KeyError) {
        self.path = path
        do {
            // Without the option `nonBlocking`, open() of a named pipe would wait forever if no other process opens the pipe for writing.
            file = try OpenFile(path, .readOnly, options: .nonBlocking)
            status = try file.status()
        } catch {
            throw KeyError(error.isMissing ? .noSuchFile : .readFailed, "\(path): \(error)")
        }
    }

    var isFolder: Bool { status.type == .directory }

    /// Checks that the file is a regular file or a pipe.
    ///
    /// - Throws: `not-a-file`.
    func expectFile() throws(KeyError) {
        guard status.type == .regular || status.type == .fifo else {
            throw KeyError(.notAFile, "\(path): expected a regular file or a pipe")
        }
    }

    /// Checks that the mode of the file gives the group and others no access.
    ///
    /// - Parameter secret: the contents of the file, for the message.
    /// - Throws: `key-file-permissions`.
    func expectPrivate(_ secret: String) throws(KeyError) {
        guard status.permissions.isDisjoint(with: [.groupReadWriteExecute, .otherReadWriteExecute]) else {
            throw KeyError(
                .keyFilePermissions, "\(path): users other than the owner can read or change \(secret)",
                hint: "chmod 600 \(path.string.shellQuoted)")
        }
    }

    /// Reads the whole file.
    ///
    /// - Throws: `not-a-file`, `key-too-large`, `read-failed`.
    func contents() throws(KeyError) -> SecretBytes {
        try expectFile()
        let limit = PEMBlock.maximumLength
        let bytes: SecretBytes
        do {
            try file.block()
            bytes = try SecretBytes(capacity: limit + 1) { (buffer) throws(Errno) in
                var count = 0
                while count < buffer.count {
                    let read = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
                    if read == 0 { break }
                    count += read
                }
                return count
            }
        } catch {
            throw KeyError(.readFailed, "\(path): \(error)")
        }
        guard bytes.count <= limit else {
            throw KeyError(.tooLarge, "\(path): the file has more than \(limit) bytes, the limit for a key")
        }
        return bytes
    }

    /// Reads the file and parses the public key in it.
    ///
    /// - Parameter option: the command-line option for this file, for the hint of an error.
    /// - Throws: the errors of `contents()`; the errors of `ImagePublicKey(pem:)` with the path in the message.
    func publicKey(option: String = "--trust") throws(KeyError) -> ImagePublicKey {
        let text = try contents()
        do { return try ImagePublicKey(pem: text) } catch {
            var error = error.at(path.string)
            // The user often gives the private key NAME.pem instead of NAME.pub.pem.
            let publicPath = path.string.hasSuffix(".pem") ? "\(path.string.dropLast(".pem".count)).pub.pem" : ""
            if error.code == .notAKey, access(publicPath, F_OK) == 0 {
                error.hint = "give the public key of the same pair: \(option) \(publicPath.shellQuoted)"
            }
            throw error
        }
    }
}
