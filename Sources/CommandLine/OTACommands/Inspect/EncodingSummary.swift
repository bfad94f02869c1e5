import OTAEncoding
import OTAFirmware
import OTASigning

/// The size of an encoded image.
struct EncodingSummary: Encodable, Sendable {
    /// The encoding, always `lzma2`.
    let encoding: String
    /// The SHA-256 of the base; nil if the image is only compressed.
    let baseSha256: String?
    /// The size of the encoded image in bytes.
    let bytes: Int
    /// The row for the user: a title and a value.
    let row: (String, String)

    private enum CodingKeys: CodingKey { case encoding, baseSha256, bytes }

    /// Encodes an image.
    ///
    /// - Parameter base: the name and the bytes of the base; nil: the image is only compressed.
    /// - Throws: `file-too-large` for an image or a base of more than ``EncodedImage/maximumSize`` bytes; `read-failed` if the encoder
    ///   fails.
    init(_ image: [UInt8], base: (name: String, bytes: [UInt8])? = nil) throws(Failure) {
        encoding = "lzma2"
        baseSha256 = base.map { SHA256.digest(of: $0.bytes).description }
        try Self.checkSize(image.count, "the image", hint: "omit --base: push sends this image plain")
        if let base {
            try Self.checkSize(
                base.bytes.count, "the base \(base.name)", hint: "omit this --base: push does not use it as a base")
        }
        do throws(EncodingFailure) {
            bytes = try ImageEncoder.encode(image, from: 0, base: base?.bytes ?? []).bytes.count
        } catch {
            throw Failure(error)
        }
        let part = image.isEmpty ? 0 : Double(bytes) / Double(image.count) * 100
        let size = "\(bytes) bytes, \(Figures.decimal(part, places: 1)) % of the image"
        row = base.map { ("Delta from \($0.name)", size) } ?? ("Compressed", size)
    }

    private static func checkSize(_ size: Int, _ name: String, hint: String) throws(Failure) {
        guard size > EncodedImage.maximumSize else { return }
        throw Failure(
            "file-too-large", .malformed,
            "\(name) has \(size) bytes; the limit for encoded images is \(EncodedImage.maximumSize)", hint: hint)
    }
}

extension Failure {
    /// Creates the failure of `inspect --base` for an image that cannot be encoded.
    fileprivate init(_ error: EncodingFailure) {
        let context =
            switch error {
            case .tooLarge: "it is too large"
            case .notDecoded(let context), .baseUnreadable(let context): context
            }
        self.init(
            "read-failed", .inputOutput, "the image cannot be encoded: \(context)",
            hint: "omit --base: push sends this image plain")
    }
}
