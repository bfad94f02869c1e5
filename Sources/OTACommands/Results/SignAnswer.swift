import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// The output format of `sign`.
enum SignedKind: String, ExpressibleByArgument, CaseIterable {
    case bundle, mcuboot
}

/// The result of `sign`.
struct SignAnswer: Answer {
    var bundle: BundleSummary?
    var image: ImageSummary?
    let output: String
    let lines: [TerminalLine]

    private enum CodingKeys: CodingKey {
        case bundle, image, output
    }

    init(_ file: SignedFile) {
        let bundle = BundleSummary(file.envelope)
        self.bundle = bundle
        output = file.path.string
        let count = bundle.signatures.count
        let line =
            "Wrote \(output): \(bundle.product) \(bundle.version), \(bundle.imageSize) image bytes, "
            + "signed by \(bundle.signers)\(count > 1 ? " (\(count) signatures)" : "")."
        lines = ([line] + (file.image?.notes ?? []).map { "Note: \($0)" }).map { TerminalLine($0) }
    }

    init(_ image: ImageSummary, signer: KeyID, output: String) {
        self.image = image
        self.output = output
        lines = [
            "Wrote \(output): MCUboot image \(image.version ?? ""), \(image.size) bytes, signed by \(signer)."
        ]
    }
}
