import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// A small verified bundle, the same in every process, and what a device for it says of itself.
struct FuzzRelease {
    let bundle: VerifiedBundle
    private let key: PublicKey

    init() throws {
        let image = (0..<600).map { UInt8(truncatingIfNeeded: $0 % 251) }
        let privateKey = try PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        key = privateKey.publicKey
        guard let version = SemanticVersion("1.1.0"), let product = ProductName("demo") else {
            throw KeyError(.notAKey, "the names are none")
        }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: 600, securityCounter: 2, created: 0, imageDigest: SHA256.digest(of: image),
            version: version, product: product)
        guard let signature = BundleSignature(keyID: key.id, signature: try privateKey.sign(manifest.bytes)) else {
            throw KeyError(.notAKey, "no signature")
        }
        let envelope = try Envelope(manifest: manifest, signatures: [signature])
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }

    func task(_ number: UInt8) -> UpdateTask<VerifiedBundle> {
        switch number % 8 {
        case 0: .status
        case 1: .confirm
        case 2: .discard
        case 3: .identify(seconds: number)
        case 4: .push(bundle, UpdateOptions(resume: true, ending: .trial))
        case 5: .push(bundle, UpdateOptions(ending: .permanent))
        default: .push(bundle, UpdateOptions(resume: number & 8 == 0))
        }
    }

    /// With (1) or without a trial, with (2) half of the image held, with (4) this very release running.
    func info(_ variant: UInt8) -> [UInt8] {
        let trial: UInt8 = variant & 1 == 1 ? 60 : 0
        var info: [UInt8] = [1, 1, 1, 2, 4] + Array("demo".utf8)
        info += [3, 2, 1, 0, 4, 4, 1, 0, 0, 0, 5, 5, 0, 0, 0, 1, 0, 6, 4, 244, 0, 16, 0, 7, 4, 10, 0, trial, 0]
        info += [8, 8] + key.id.bytes
        if variant & 4 != 0 { info += [9, 8] + bundle.manifestDigest.prefix }
        if variant & 2 != 0 { info += [10, 12] + bundle.manifestDigest.prefix + [44, 1, 0, 0] }
        return info
    }
}
