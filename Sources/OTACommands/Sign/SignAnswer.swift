import OTAFirmware
import OTASigning
import SystemPackage

/// The result of the command `sign`.
struct SignAnswer: CommandAnswer {
    var bundle: BundleSummary?
    var image: ImageSummary?
    /// The path of the signed file; nil with `--to-sign`, which writes no signed file.
    var output: String?
    var toSign: BytesToSign?
    private(set) var sentences: [String]
    var lines: [TerminalLine] { sentences.map { TerminalLine($0) } }

    private enum CodingKeys: CodingKey {
        case bundle, image, output, toSign
    }

    /// The bytes that a key on another machine must sign.
    struct BytesToSign: Encodable, Sendable {
        let file: String
        let bytes: Int
        let sha256: String
    }

    /// The result without text for the user. `sign` uses this result if the output file goes to standard output, because the text would
    /// damage the file.
    var withoutLines: SignAnswer {
        var copy = self
        copy.sentences = []
        return copy
    }

    init(_ file: SignedFile) {
        let bundle = BundleSummary(file.envelope)
        self.bundle = bundle
        let output = file.path.string
        self.output = output
        let count = bundle.signatures.count
        let line =
            "Wrote \(output): \(bundle.product) \(bundle.version), \(bundle.imageSize) image bytes, "
            + "signed by \(bundle.signers)\(count > 1 ? " (\(count) signatures)" : "")."
        sentences = [line] + (file.image?.notes ?? []).map { "Note: \($0)" }
    }

    init(_ bytes: [UInt8], to file: String) {
        let digest = SHA256.digest(of: bytes).description
        toSign = BytesToSign(file: file, bytes: bytes.count, sha256: digest)
        sentences = ["Wrote \(file): \(bytes.count) bytes to sign, SHA-256 \(digest)."]
    }

    init(_ image: ImageSummary, signer: KeyID, output: String) {
        self.image = image
        self.output = output
        sentences = [
            "Wrote \(output): MCUboot image \(image.version ?? ""), \(image.size) bytes, signed by \(signer)."
        ]
    }
}
