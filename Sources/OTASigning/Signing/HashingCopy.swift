internal import OTAFirmware

/// Writes an image after the space for its envelope, and hashes exactly the bytes that it writes.
final class HashingCopy {
    private let output: OutputFile
    private var offset: UInt64
    private let hash = SHA256()

    init(to output: OutputFile, behind envelope: Envelope) {
        self.output = output
        offset = UInt64(envelope.length)
    }

    func take(_ piece: UnsafeRawBufferPointer) throws(SigningError) {
        hash.update(piece)
        try output.write(piece, at: offset)
        offset += UInt64(piece.count)
    }

    /// Returns the digest. Call it once, as the last call.
    func finish() -> SHA256Digest { hash.finish() }
}
