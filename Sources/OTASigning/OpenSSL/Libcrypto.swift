import COpenSSL

/// Describes the loaded libcrypto.
package enum Libcrypto {
    /// The version, for example `3.0.17`.
    package static var version: String {
        "\(OPENSSL_version_major()).\(OPENSSL_version_minor()).\(OPENSSL_version_patch())"
    }
}
