import OTASigning
import OTATestSupport
import SystemPackage

/// The public sample key in firmware-samples/. imgtool signed the samples with it.
enum SampleKey {
    static let path = Repository.samples.appending("mcuboot-sample-key.pem")
    static let publicPath = Repository.samples.appending("mcuboot-sample-key.pub.pem")

    static func key() throws -> PrivateKey { try PrivateKey(pem: SecretBytes(copying: contents(of: path))) }

    /// Returns a verifier that trusts only this key.
    static func verifier(_ policy: TrustPolicy = TrustPolicy()) throws -> Verifier {
        Verifier(trust: try TrustStore([key().publicKey]), policy: policy)
    }
}
