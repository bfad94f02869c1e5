internal import Glibc
public import SystemPackage

/// Reads and writes key files.
public enum KeyFile {
    /// Reads the PEM text of a private key for `PrivateKey(pem:passphrase:)`. The path may name a pipe.
    ///
    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`, `key-too-large`; `not-a-key` for a public key;
    ///   `key-file-permissions` if the group or others have any access to the file.
    public static func privateKeyText(at path: FilePath) throws(KeyError) -> SecretBytes {
        let file = try SmallFile(path)
        let text = try file.contents()
        // This check comes before the permissions, which do not matter for a public key.
        if (try? PublicKey(pem: text)) != nil { throw isPublic(path) }
        guard file.status.permissions.isDisjoint(with: [.groupReadWriteExecute, .otherReadWriteExecute]) else {
            throw KeyError(
                .keyFilePermissions, "\(path): others than its owner can read or change this private key",
                hint: "chmod 600 \(path.string.shellQuoted)")
        }
        return text
    }

    private static func isPublic(_ path: FilePath) -> KeyError {
        let suffix = ".pub.pem"
        let other = path.string.hasSuffix(suffix) ? String(path.string.dropLast(suffix.count)) + ".pem" : "NAME.pem"
        return KeyError(
            .notAKey, "\(path): this is a public key, which cannot sign",
            hint: "give the private key that was made with it: --key \(other.shellQuoted)")
    }

    /// Reads a public key from a PEM file.
    ///
    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`, and the errors of `PublicKey(pem:)` with the path.
    public static func publicKey(at path: FilePath) throws(KeyError) -> PublicKey {
        try SmallFile(path).publicKey()
    }

    /// Writes `name`.pem (mode 0600, less the umask) and `name`.pub.pem (mode 0644, less the umask) and returns their paths.
    ///
    /// It never overwrites a file. If it cannot create the second file, it removes the first one.
    ///
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`.
    public static func write(
        _ key: PrivateKey, name: FilePath, passphrase: Passphrase? = nil
    ) throws(KeyError) -> (privateKey: FilePath, publicKey: FilePath) {
        guard name.lastComponent?.kind == .regular else { throw KeyError(.cannotCreate, "\(name): not a file's name") }
        let privatePath = FilePath(name.string + ".pem")
        let publicPath = FilePath(name.string + ".pub.pem")
        let privateText = try key.pem(passphrase: passphrase)
        let publicText = try key.publicKey.pem()
        try create(privatePath, permissions: .ownerReadWrite, contents: privateText)
        do {
            try create(publicPath, permissions: [.ownerReadWrite, .groupRead, .otherRead], contents: publicText)
        } catch {
            unlink(privatePath.string)
            throw error
        }
        name.folder.synchronizeFolder()
        return (privatePath, publicPath)
    }

    private static func create(
        _ path: FilePath, permissions: FilePermissions, contents: SecretBytes
    ) throws(KeyError) {
        let file: OpenFile
        do {
            file = try OpenFile(path, .writeOnly, options: [.create, .exclusiveCreate], permissions: permissions)
        } catch {
            let code: KeyError.Code = error == .fileExists ? .exists : .cannotCreate
            throw KeyError(code, "\(path): \(error)")
        }
        do {
            try contents.withUnsafeBytes { (bytes) throws(Errno) in try file.write(bytes) }
            try file.synchronize()
        } catch {
            unlink(path.string)
            throw KeyError(.writeFailed, "\(path): \(error)")
        }
    }
}
