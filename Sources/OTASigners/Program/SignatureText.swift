internal import OTASigning

/// Decodes the output of a signing program.
package enum SignatureText {
    /// The length of an Ed25519 signature, in bytes.
    static let length = 64

    /// Returns the signature of 64 bytes. The output can contain the raw bytes, or their Base64 or hex digits with white space. For any
    /// other output, the result is nil.
    package static func decode(_ output: [UInt8]) -> [UInt8]? {
        SignatureEncoding.decodings(of: output).first { $0.count == length }
    }
}
