import FoundationEssentials
import OTAFirmware
import OTASigning
import SystemPackage

/// Signs an image, verifies the bundle, and prints its manifest: `sign-and-verify IMAGE BUNDLE [KEY]`. Without a key, it creates one.
@main
struct SignAndVerify {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 || arguments.count == 4 else {
            return print("usage: sign-and-verify IMAGE BUNDLE [KEY]")
        }
        let image = FilePath(arguments[1])
        let bundle = FilePath(arguments[2])
        let now = UInt64(Date().timeIntervalSince1970)

        let key =
            try arguments.count == 4
            ? PrivateKey(pem: SecretBytes(copying: contents(of: arguments[3]))) : PrivateKey.generate()
        let release = Release(hardware: HardwareRevisions("1..3"), securityCounter: 4)
        _ = try BundleSigner(keys: [key]).sign(image, as: release, created: now, to: bundle, replace: true)

        let file = try contents(of: bundle.string)
        let trust = try TrustStore([key.publicKey])
        let verified = try Verifier(trust: trust).verify(SignedBundle(parsing: file))
        print(verified.manifest.product, verified.manifest.version, "signed by", verified.signers)

        printFields(of: verified)
        try checkThatAChangedImageIsRejected(file, trust)
    }

    private static func contents(of path: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: URL(filePath: path)))
    }

    private static func printFields(of verified: VerifiedBundle) {
        let manifest = verified.manifest
        print("format:", manifest.imageFormat.name)
        print("image: \(manifest.imageSize) bytes, SHA-256 \(manifest.imageDigest)")
        print("hardware:", manifest.hardware?.description ?? "all revisions")
        print("security counter:", manifest.securityCounter)
        print("manifest: SHA-256 \(verified.manifestDigest)")
    }

    private static func checkThatAChangedImageIsRejected(_ bundle: [UInt8], _ trust: TrustStore) throws {
        var changed = bundle
        changed[changed.count - 1] ^= 1
        do {
            _ = try Verifier(trust: trust).verify(SignedBundle(parsing: changed))
        } catch let error as VerificationError {
            print("one changed bit:", error.code.rawValue)
        }
    }
}
