import Gauntlet
import OTASigning
import OTASimulator
import OTAUpdate

/// An MCUboot image with a body of so many bytes, signed with a new key.
struct SMPRelease: Sendable {
    let image: VerifiedImage
    let key: PublicKey

    init(bytes count: Int, version: (UInt8, UInt8, UInt16, UInt32) = (1, 1, 0, 0)) throws {
        var random = SplitMix64(seed: UInt64(count))
        let body = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        let key = try PrivateKey.generate()
        let file = try MCUbootFile(parsing: try SampleImage(version, body: body, key: key).bytes())
        self.key = key.publicKey
        image = try Verifier(trust: try TrustStore([key.publicKey])).verify(file)
    }
}
