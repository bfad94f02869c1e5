internal import OTAFirmware

/// An Ed25519 or ML-DSA key pair that signs bundles. An Ed25519 key also signs MCUboot images. The private key can be in memory
/// (``PrivateKey``), or in a place that it never leaves, such as a hardware token.
///
/// ``BundleSigner`` and ``MCUbootSigner`` verify each signature with `publicKey` before they write the signature. A faulty signer therefore
/// cannot produce a file with an invalid signature.
public protocol Signer: Sendable {
    var publicKey: PublicKey { get }

    /// Returns the signature of `message`. The call blocks until the signature exists.
    ///
    /// - Parameter domain: the purpose of the signature. An ML-DSA signature covers its context.
    func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8]
}

/// A key pair of any algorithm of ``ImagePublicKey`` that signs MCUboot images. The private key can be in memory (``ImagePrivateKey``), or
/// in a place that it never leaves.
public protocol ImageSigner: Sendable {
    var publicKey: ImagePublicKey { get }

    /// Returns the signature of `message`. An Ed25519 key signs the message itself. An ECDSA or RSA key signs the SHA-256 of the message.
    ///
    /// An ECDSA signature is in DER (RFC 3279, 2.2.3). An RSA signature is RSASSA-PSS with MGF1-SHA-256 and a salt of 32 bytes. The call
    /// blocks until the signature exists.
    func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8]
}

/// The purpose of a signature. An ML-DSA signature covers the context string of its domain (FIPS 204, 5.2), so a signature of one domain is
/// never valid in the other. Ed25519 has no context: the domain has no effect.
public struct SignatureDomain: Sendable {
    /// The manifest of a bundle.
    public static let bundle = SignatureDomain(context: Array("otaflash-bundle".utf8))
    /// All other messages. The messages have a prefix of their own, such as that of DSSE, and other verifiers use no context.
    public static let none = SignatureDomain(context: [])

    /// The context string as bytes. An empty string means no context.
    public let context: [UInt8]

    /// Creates another domain, for test vectors.
    package init(context: [UInt8]) { self.context = context }
}

/// Adapts a ``Signer`` with an Ed25519 key to ``ImageSigner``.
private struct Ed25519ImageSigner: ImageSigner {
    let publicKey: ImagePublicKey
    let signer: any Signer

    func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] { try signer.sign(message) }
}

extension Signer {
    /// Returns the signature of `message` without a context.
    public func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] { try sign(message, in: .none) }

    /// Calls `sign(_:in:)`, verifies the signature with `publicKey`, and returns the signature. ``BundleSigner`` and `AttestationEnvelope`
    /// call only this method, because a token or a program outside this process can return a wrong signature.
    ///
    /// - Throws: `signer-protocol` if the signature is not valid; `unsupported-openssl`, `crypto-failed` if it could not be checked; the
    ///   errors of the signer.
    func verifiedSignature(of message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
        let signature = try sign(message, in: domain)
        guard try publicKey.verify(signature: signature, message: message, in: domain) else {
            var error = KeyError.invalidSignature(by: publicKey.id)
            if publicKey.algorithm != .ed25519, !domain.context.isEmpty {
                let context = String(decoding: domain.context, as: UTF8.self)
                error.hint = "sign with ML-DSA (pure) and the context string '\(context)': docs/signing-keys.md"
            }
            throw error
        }
        return signature
    }

    /// Returns this signer as an ``ImageSigner`` with the same key, for MCUboot images.
    ///
    /// - Throws: `wrong-algorithm` for an ML-DSA key.
    public func imageSigner() throws(KeyError) -> any ImageSigner {
        let key = ImagePublicKey(publicKey)
        try key.expectForImages()
        return Ed25519ImageSigner(publicKey: key, signer: self)
    }
}

extension ImageSigner {
    /// Calls `sign(_:)`, verifies the signature with `publicKey`, and returns the signature. ``MCUbootSigner`` calls only this method,
    /// because a token or a program outside this process can return a wrong signature.
    ///
    /// - Throws: `signer-protocol` if the signature is not valid; the errors of the signer.
    func verifiedSignature(of message: [UInt8]) throws(KeyError) -> [UInt8] {
        let signature = try sign(message)
        guard try publicKey.isValid(signature, of: message) else {
            throw KeyError.invalidSignature(by: publicKey.id)
        }
        return signature
    }
}

extension ImagePublicKey {
    /// Returns whether `signature` is a valid signature of `message` by this key, without a context. The signature must have the encoding
    /// that ``ImageSigner/sign(_:)`` returns.
    func isValid(_ signature: [UInt8], of message: [UInt8]) throws(KeyError) -> Bool {
        guard let key = bundleKey else { return verify(signature: signature, ofDigestOf: message[...]) }
        return try key.verify(signature: signature, message: message)
    }
}

extension KeyError {
    fileprivate static func invalidSignature(by key: KeyID) -> KeyError {
        KeyError(
            .signerProtocol, "the signer returned a signature that is not valid for its own public key \(key)")
    }
}
