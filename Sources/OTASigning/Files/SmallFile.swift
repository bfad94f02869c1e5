internal import SystemPackage

/// A key file or scope file that is opened once, so that the checks and the read use the same file.
struct SmallFile {
    let path: FilePath
    let status: Stat
    private let file: OpenFile

    /// - Throws: `no-such-file`, `read-failed`.
    init(_ path: FilePath) throws(KeyError) {
        self.path = path
        do {
            // Non-blocking: otherwise open() on a named pipe without a writer never returns.
            file = try OpenFile(path, .readOnly, options: .nonBlocking)
            status = try file.status()
        } catch {
            throw KeyError(error.isMissing ? .noSuchFile : .readFailed, "\(path): \(error)")
        }
    }

    var isFolder: Bool { status.type == .directory }

    /// - Throws: `not-a-file`.
    func expectFile() throws(KeyError) {
        guard status.type == .regular || status.type == .fifo else {
            throw KeyError(.notAFile, "\(path): neither a file nor a pipe")
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
            throw KeyError(.tooLarge, "\(path): more than the \(limit) bytes that a key may take")
        }
        return bytes
    }

    /// Reads the public key in the file.
    func publicKey() throws(KeyError) -> PublicKey {
        let text = try contents()
        do { return try PublicKey(pem: text) } catch { throw error.at(path.string) }
    }
}
