/// An Ed25519 key pair that signs bundles and MCUboot images. The private key can be in memory (``PrivateKey``), or in a place that it
/// never leaves, such as a hardware token.
///
/// ``BundleSigner`` and ``MCUbootSigner`` verify each signature with `publicKey` before they write the signature. A faulty signer therefore
/// cannot produce a file with an invalid signature.
public protocol Signer: Sendable {
    var publicKey: PublicKey { get }

    /// Returns the signature of `message`. The signature has 64 bytes. The call blocks until the signature exists.
    func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8]
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

/// Adapts a ``Signer``, which has an Ed25519 key, to ``ImageSigner``.
private struct Ed25519ImageSigner: ImageSigner {
    let publicKey: ImagePublicKey
    private let signer: any Signer

    init(_ signer: any Signer) {
        publicKey = ImagePublicKey(signer.publicKey)
        self.signer = signer
    }

    func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] { try signer.sign(message) }
}

extension ImageSigner {
    /// Calls `sign(_:)`, verifies the signature with `publicKey`, and returns the signature. ``BundleSigner``, ``MCUbootSigner`` and
    /// `AttestationEnvelope` call only this method, because a token or a program outside this process can return a wrong signature.
    ///
    /// - Throws: `signer-protocol` if the signature is not valid; the errors of the signer.
    func verifiedSignature(of message: [UInt8]) throws(KeyError) -> [UInt8] {
        let signature = try sign(message)
        guard publicKey.isValid(signature, of: message) else {
            throw KeyError(
                .signerProtocol,
                "the signer returned a signature that is not valid for its own public key \(publicKey.id)")
        }
        return signature
    }
}

extension ImagePublicKey {
    /// Returns whether `signature` is a valid signature of `message` by this key. The signature must have the encoding that
    /// ``ImageSigner/sign(_:)`` returns.
    func isValid(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard let key = bundleKey else { return verify(signature: signature, ofDigestOf: message[...]) }
        return key.verify(signature: signature, message: message)
    }
}

extension Signer {
    /// This signer as an ``ImageSigner`` with the same key, for MCUboot images.
    public var imageSigner: any ImageSigner { Ed25519ImageSigner(self) }
}
