import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// What `sign` makes.
enum SignedKind: String, ExpressibleByArgument, CaseIterable {
    case bundle, mcuboot
}

struct SignAnswer: Answer {
    var bundle: BundleSummary?
    var image: ImageSummary?
    let output: String
    let text: String

    private enum CodingKeys: CodingKey {
        case bundle, image, output
    }

    init(_ file: SignedFile) {
        let bundle = BundleSummary(file.envelope)
        self.bundle = bundle
        output = file.path.string
        let count = bundle.signatures.count
        let line =
            "Wrote \(output.printableLine): \(bundle.product) \(bundle.version), \(bundle.imageSize) bytes of image, "
            + "signed by \(bundle.signers)\(count > 1 ? " (\(count) signatures)" : "")."
        text = ([line] + (file.image?.notes ?? []).map { "Note: \($0)" }).joined(separator: "\n")
    }

    init(_ image: ImageSummary, signer: KeyID, output: String) {
        self.image = image
        self.output = output
        text =
            "Wrote \(output.printableLine): MCUboot image \(image.version ?? ""), \(image.size) bytes, signed by \(signer)."
    }
}
