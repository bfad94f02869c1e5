internal import OTASigning

/// Decodes the output of a signing program.
package enum SignatureText {
    /// The length of an Ed25519 signature, in bytes.
    static let length = 64

    /// Returns the signature; nil if the output is not 64 raw bytes, or the Base64 or the hex digits of 64 bytes with white space between
    /// them.
    package static func decode(_ output: [UInt8]) -> [UInt8]? {
        SignatureEncoding.decodings(of: output).first { $0.count == length }
    }
}
