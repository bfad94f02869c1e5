import OTASigning
import SystemPackage

/// The published key of firmware-samples/, with which imgtool signed the samples.
enum SampleKey {
    static let path = Repository.samples.appending("mcuboot-sample-key.pem")
    static let publicPath = Repository.samples.appending("mcuboot-sample-key.pub.pem")

    static func key() throws -> PrivateKey { try PrivateKey(pem: SecretBytes(copying: contents(of: path))) }

    /// Trusts it alone.
    static func verifier(_ policy: TrustPolicy = TrustPolicy()) throws -> Verifier {
        Verifier(trust: try TrustStore([key().publicKey]), policy: policy)
    }
}
