package import OTASigning
import OTASimulator
import OTAUpdate

/// An MCUboot image with a body of a given size, signed with its own key.
package struct SMPRelease: PushedImage {
    package let verified: VerifiedImage
    package let key: PublicKey
    package var image: [UInt8] { verified.bytes }

    /// - Parameter keySeed: the seed of the key; nil makes a new key.
    package init(
        bytes count: Int, version: (UInt8, UInt8, UInt16, UInt32) = (1, 1, 0, 0), keySeed: UInt8? = nil
    ) throws {
        var random = SplitMix64(seed: UInt64(count))
        let body = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        let key = try keySeed.map { try PrivateKey(seed: [UInt8](repeating: $0, count: 32)) } ?? .generate()
        let file = try MCUbootFile(parsing: try SampleImage(version, body: body, key: key).bytes())
        self.key = key.publicKey
        verified = try Verifier(trust: try TrustStore([key.publicKey])).verify(file)
    }
}
