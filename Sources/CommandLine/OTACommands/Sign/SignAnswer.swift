import Glibc
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
    var signature: ManifestSignature?
    private(set) var sentences: [String]
    var lines: [TerminalLine] { sentences.map { TerminalLine($0) } }

    private enum CodingKeys: CodingKey {
        case bundle, image, output, toSign, signature
    }

    /// The bytes that a key on another machine must sign.
    struct BytesToSign: Encodable, Sendable {
        let file: String
        let bytes: Int
        let sha256: String
    }

    /// The signature of a manifest that `sign --to-sign` wrote.
    struct ManifestSignature: Encodable, Sendable {
        let file, keyID, manifestSha256: String
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

    /// - Parameters:
    ///   - file: the written file.
    ///   - path: the file of the manifest.
    init(signature file: String, of manifest: Manifest, at path: String, by key: KeyID) {
        let digest = SHA256.digest(of: manifest.bytes).description
        signature = ManifestSignature(file: file, keyID: key.description, manifestSha256: digest)
        let attach =
            "otaflash sign IMAGE --manifest \(Shell.quoted(path)) --signature \(Shell.quoted(file)) --public-key KEY.pub.pem"
        sentences = [
            "Wrote \(file): signature of the manifest of \(manifest.product) \(manifest.version), SHA-256 \(digest), by \(key).",
            "To attach it: \(attach)",
        ]
    }

    init(_ image: ImageSummary, signer: KeyID, output: String) {
        self.image = image
        self.output = output
        sentences = [
            "Wrote \(output): MCUboot image \(image.version ?? ""), \(image.size) bytes, signed by \(signer)."
        ]
    }
}

/// The creation time of a bundle: the value of `SOURCE_DATE_EPOCH`, or the current time if this variable is not set. With
/// `SOURCE_DATE_EPOCH`, the same image, options and keys result in the same bundle (https://reproducible-builds.org).
enum CreationTime {
    /// Returns the creation time as Unix seconds.
    ///
    /// - Throws: `Failure` with the code `usage` for an invalid `SOURCE_DATE_EPOCH`.
    static func now() throws(Failure) -> UInt64 {
        guard let value = getenv("SOURCE_DATE_EPOCH") else { return UInt64(clamping: time(nil)) }
        let text = String(cString: value)
        // `UInt64(_:)` also accepts a plus sign. Therefore this check accepts only digits.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        guard isNumber, let seconds = UInt64(text), seconds <= Manifest.latestCreationTime else {
            throw Failure.usage(
                "SOURCE_DATE_EPOCH is '\(text)'; expected Unix seconds from 0 to \(Manifest.latestCreationTime)",
                hint: "use export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it")
        }
        return seconds
    }
}
