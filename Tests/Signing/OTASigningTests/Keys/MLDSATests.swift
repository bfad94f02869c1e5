import OTAFirmware
import OTASigning
import OTATestSupport
import SystemPackage
import Testing

@Suite("ML-DSA keys and signatures", .enabled(if: MLDSA.isAvailable, "libcrypto is older than OpenSSL 3.5"))
struct MLDSATests {
    @Test("keys from seeds and deterministic signatures are those of NIST's reference code and of Wycheproof")
    func signatureVectors() throws {
        #expect(MLDSA.vectors.sign.count > 200)
        for vector in MLDSA.vectors.sign {
            let key = try MLDSA.privateKey(vector.algorithm, seed: vector.seed)
            #expect(SHA256.digest(of: key.publicKey.bytes).description == vector.publicKeyDigest, "\(vector)")
            let domain = SignatureDomain(context: vector.context)
            let signature = try key.sign(vector.message, in: domain)
            #expect(SHA256.digest(of: signature).description == vector.signatureDigest, "\(vector)")
            #expect(try key.publicKey.verify(signature: signature, message: vector.message, in: domain))
            #expect(try !key.publicKey.verify(signature: signature, message: vector.message, in: .bundle))
        }
    }

    @Test("valid signatures of Wycheproof are valid, and forged ones are invalid and never reported as not checked")
    func verificationVectors() throws {
        #expect(MLDSA.vectors.verify.count { $0.isValid } >= 5)
        #expect(MLDSA.vectors.verify.count { !$0.isValid } >= 20)
        for vector in MLDSA.vectors.verify {
            let isValid = try vector.key.verify(
                signature: vector.signature, message: vector.message, in: SignatureDomain(context: vector.context))
            #expect(isValid == vector.isValid, "\(vector)")
        }
    }

    @Test(
        "a signature with a flipped bit, another length, message, context or key is invalid",
        arguments: MLDSA.algorithms)
    func invalid(_ algorithm: SignatureAlgorithm) throws {
        let key = try MLDSA.privateKey(algorithm, seed: [UInt8](repeating: 1, count: 32))
        let message = Array("message".utf8)
        let signature = try key.sign(message, in: .bundle)
        #expect(try key.publicKey.verify(signature: signature, message: message, in: .bundle))
        #expect(try !key.publicKey.verify(signature: signature, message: message, in: .none))
        #expect(try !key.publicKey.verify(signature: signature, message: message + [0], in: .bundle))
        #expect(try !key.publicKey.verify(signature: signature + [0], message: message, in: .bundle))
        #expect(try !key.publicKey.verify(signature: signature.dropLast(), message: message, in: .bundle))
        #expect(try !key.publicKey.verify(signature: [], message: message, in: .bundle))
        let other = try MLDSA.privateKey(algorithm, seed: [UInt8](repeating: 2, count: 32))
        #expect(try !other.publicKey.verify(signature: signature, message: message, in: .bundle))
        // The last bytes contain the hints, whose encoding has rules of its own.
        let hints = (signature.count - 90)..<signature.count
        for index in Array(stride(from: 0, to: signature.count, by: 61)) + Array(hints) {
            var forged = signature
            forged[index] ^= 1 << UInt8(index % 8)
            #expect(try !key.publicKey.verify(signature: forged, message: message, in: .bundle), "byte \(index)")
        }
    }

    @Test("openssl reads the keys, and the PEM texts of both directions are equal", arguments: MLDSA.algorithms)
    func opensslKeys(_ algorithm: SignatureAlgorithm) async throws {
        let key = try PrivateKey.generate(algorithm)
        let pem = try key.pem()
        #expect(try await OpenSSLCommand.run("pkey", input: pem.bytes) == pem.bytes)
        let publicPEM = try await OpenSSLCommand.run("pkey", "-pubout", input: pem.bytes)
        #expect(try key.publicKey.pem().bytes == publicPEM)
        #expect(try PublicKey(pem: SecretBytes(copying: publicPEM)) == key.publicKey)
        let made = try await OpenSSLCommand.run("genpkey", "-quiet", "-algorithm", algorithm.name.uppercased())
        let read = try PrivateKey(pem: SecretBytes(copying: made))
        #expect(read.publicKey.algorithm == algorithm)
        #expect(try await OpenSSLCommand.run("pkey", "-pubout", input: made) == read.publicKey.pem().bytes)
    }

    @Test("an encrypted key is decrypted by openssl and by otaflash, with the right passphrase only")
    func encrypted() async throws {
        let key = try PrivateKey.generate(.mlDSA65)
        let pem = try key.pem(passphrase: Passphrase("correct horse"))
        let plain = try await OpenSSLCommand.run("pkey", "-passin", "pass:correct horse", input: pem.bytes)
        #expect(try PrivateKey(pem: SecretBytes(copying: plain)).publicKey == key.publicKey)
        #expect(try PrivateKey(pem: pem, passphrase: Passphrase("correct horse")).publicKey == key.publicKey)
        #expect(throws: KeyError(.wrongPassphrase, "")) { try PrivateKey(pem: pem, passphrase: Passphrase("wrong")) }
        #expect(throws: KeyError(.passphraseRequired, "")) { try PrivateKey(pem: pem) }
    }

    @Test(
        "each form of private key of openssl is read: the seed, the expanded key, and both",
        arguments: ["seed-only", "priv-only", "seed-priv"])
    func forms(_ form: String) async throws {
        let pem = try await OpenSSLCommand.run(
            "genpkey", "-quiet", "-algorithm", "ML-DSA-65", "-provparam", "ml-dsa.output_formats=\(form)")
        let key = try PrivateKey(pem: SecretBytes(copying: pem))
        #expect(try await OpenSSLCommand.run("pkey", "-pubout", input: pem) == key.publicKey.pem().bytes)
        #expect(try key.publicKey.verify(signature: key.sign([1]), message: [1]))
    }

    @Test("openssl verifies our signatures, and otaflash verifies those of openssl", arguments: MLDSA.algorithms)
    func opensslSignatures(_ algorithm: SignatureAlgorithm) async throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate(algorithm)
        let message = try folder.write("message", [1, 2, 3])
        let context = ["-pkeyopt", "context-string:otaflash-bundle"]
        let publicKey = try folder.write("key.pub.pem", key.publicKey.pem().bytes)
        let ours = try folder.write("ours", key.sign([1, 2, 3], in: .bundle))
        let verify = ["pkeyutl", "-verify", "-rawin", "-in", message.string, "-pubin", "-inkey", publicKey.string]
        try await OpenSSLCommand.run(verify + ["-sigfile", ours.string] + context)
        await #expect(throws: (any Error).self) { try await OpenSSLCommand.run(verify + ["-sigfile", ours.string]) }
        let privateKey = try folder.write("key.pem", key.pem().bytes)
        let sign = ["pkeyutl", "-sign", "-rawin", "-in", message.string, "-inkey", privateKey.string] + context
        let random = try await OpenSSLCommand.run(sign)
        #expect(try key.publicKey.verify(signature: random, message: [1, 2, 3], in: .bundle))
        let deterministic = try await OpenSSLCommand.run(sign + ["-pkeyopt", "deterministic:1"])
        #expect(try deterministic == key.sign([1, 2, 3], in: .bundle))
        #expect(deterministic != random)
    }

    @Test("an ML-DSA key does not sign MCUboot images")
    func noImages() throws {
        let key = try PrivateKey.generate(.mlDSA44)
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try key.imageSigner() }
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try ImagePrivateKey(key) }
        #expect(throws: KeyError(.wrongAlgorithm, "")) { try ImagePrivateKey(pem: key.pem()) }
        #expect(throws: SigningError.key(KeyError(.wrongAlgorithm, ""))) { try MCUbootSigner(key: key) }
    }
}

/// These tests need no libcrypto with ML-DSA.
@Suite("ML-DSA public keys") struct MLDSAPublicKeyTests {
    @Test("a public key has the documented header, length and ID, in both directions", arguments: MLDSA.algorithms)
    func subjectPublicKeyInfo(_ algorithm: SignatureAlgorithm) throws {
        let key = try MLDSA.publicKey(7, algorithm)
        let header: [SignatureAlgorithm: String] = [
            .mlDSA44: "30820532300b06096086480165030403110382052100",
            .mlDSA65: "308207b2300b0609608648016503040312038207a100",
            .mlDSA87: "30820a32300b060960864801650304031303820a2100",
        ]
        let info = key.subjectPublicKeyInfo
        #expect(Hex.encode(info.prefix(22)) == header[algorithm])
        #expect(info.count == 22 + algorithm.publicKeyLength)
        #expect(key.id.bytes == Array(SHA256.digest(of: key.bytes).bytes.prefix(8)))
        #expect(try PublicKey(pem: key.pem()) == key)
        let other = try ImagePublicKey(pem: key.pem())
        #expect(other.bundleKey == key && other.id == key.id && other.algorithm.name == "\(algorithm)")
    }

    @Test("a public key with a wrong length or trailing bytes is refused", arguments: MLDSA.algorithms)
    func wrongLength(_ algorithm: SignatureAlgorithm) throws {
        let info = try MLDSA.publicKey(7, algorithm).subjectPublicKeyInfo
        for wrong in [info + [0], info.dropLast(), Array(info.prefix(22))] {
            #expect(throws: KeyError(.notAKey, "")) { try ImagePublicKey(subjectPublicKeyInfo: wrong) }
        }
        for count in [0, 32, algorithm.publicKeyLength - 1, algorithm.publicKeyLength + 1] {
            #expect(throws: KeyError(.notAKey, "")) {
                try PublicKey(algorithm: algorithm, bytes: [UInt8](repeating: 1, count: count))
            }
        }
    }

    @Test("a signature of another length is invalid without libcrypto")
    func lengths() throws {
        let key = try MLDSA.publicKey(7)
        for count in [0, 64, 3308, 3310] {
            #expect(try !key.verify(signature: [UInt8](repeating: 0, count: count), message: []))
        }
    }
}

@Suite("ML-DSA with an old libcrypto", .enabled(if: !MLDSA.isAvailable, "libcrypto supports ML-DSA"))
struct MLDSAUnsupportedTests {
    @Test("a signature, a private key and a new key are refused as not supported, not as invalid")
    func unsupported() throws {
        let key = try MLDSA.publicKey(7)
        let signature = [UInt8](repeating: 0, count: 3309)
        let error = #expect(throws: KeyError(.unsupportedOpenSSL, "")) {
            try key.verify(signature: signature, message: [1], in: .bundle)
        }
        #expect(error?.context.contains("ML-DSA-65 needs OpenSSL 3.5 or later; this machine has 3.0") == true)
        #expect(throws: KeyError(.unsupportedOpenSSL, "")) { try PrivateKey.generate(.mlDSA44) }
        for algorithm in MLDSA.algorithms {
            let pem = SecretBytes(copying: MLDSA.pem(algorithm, seed: [UInt8](repeating: 1, count: 32)))
            let error = #expect(throws: KeyError(.unsupportedOpenSSL, "")) { try PrivateKey(pem: pem) }
            #expect(error?.context.hasPrefix("\(algorithm) needs") == true)
            #expect(throws: KeyError(.wrongAlgorithm, "")) { try ImagePrivateKey(pem: pem) }
        }
    }
}
