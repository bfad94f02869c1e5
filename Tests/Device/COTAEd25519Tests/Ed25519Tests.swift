import COTAEd25519
import COpenSSL
import OTAFirmware
import OTASigning
import OTAUpdate
import Testing

/// Returns whether the verifier for devices accepts a signature.
func verify(_ signature: [UInt8], over message: [UInt8], by publicKey: [UInt8]) -> Bool {
    ota_ed25519_verify(publicKey, message, UInt32(message.count), signature, UInt32(signature.count))
}

/// Returns whether libcrypto accepts a signature.
private func libcryptoVerify(_ signature: [UInt8], over message: [UInt8], by publicKey: [UInt8]) -> Bool {
    let key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, publicKey, publicKey.count)
    let context = EVP_MD_CTX_new()
    defer {
        EVP_PKEY_free(key)
        EVP_MD_CTX_free(context)
        ERR_clear_error()
    }
    return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
        && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
}

/// Returns whether OTASigning, which verifies bundles on the host, accepts a signature. It does not accept the key if its order is small.
private func hostVerify(_ signature: [UInt8], over message: [UInt8], by publicKey: [UInt8]) throws -> Bool {
    do throws(KeyError) {
        return try PublicKey(bytes: publicKey).verify(signature: signature, message: message)
    } catch {
        guard error.code == .smallOrder else { throw error }
        return false
    }
}

@Suite("Ed25519 verifier for devices") struct Ed25519Tests {
    @Test("the verdicts about the vectors of RFC 8032 and Wycheproof, and about edge cases, are the expected ones")
    func vectors() throws {
        #expect(Ed25519Vector.all.count == 228)
        for vector in Ed25519Vector.all {
            let (key, message, signature) = (vector.publicKey, vector.message, vector.signature)
            #expect(verify(signature, over: message, by: key) == vector.isValid, "\(vector.testDescription)")
            #expect(
                try hostVerify(signature, over: message, by: key) == vector.isValid,
                "on the host: \(vector.testDescription)")
            #expect(
                libcryptoVerify(signature, over: message, by: key) == vector.isValidForOpenSSL,
                "libcrypto: \(vector.testDescription)")
        }
    }

    @Test("libcrypto differs only for keys of small order")
    func differences() {
        let different = Ed25519Vector.all.filter { $0.isValid != $0.isValidForOpenSSL }
        #expect(different.count == 14)
        #expect(different.allSatisfy { !$0.isValid && $0.testDescription.hasPrefix("key of order ") })
    }

    @Test("a signature is invalid with any flipped bit of the signature, the key or the message")
    func flippedBits() throws {
        let key = try PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        let message = Array("message".utf8)
        let signature = try key.sign(message)
        let publicKey = key.publicKey.bytes
        #expect(verify(signature, over: message, by: publicKey))
        func flipped(_ bytes: [UInt8], _ bit: Int) -> [UInt8] {
            var bytes = bytes
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            return bytes
        }
        for bit in 0..<512 {
            #expect(!verify(flipped(signature, bit), over: message, by: publicKey), "bit \(bit) of the signature")
        }
        for bit in 0..<256 {
            #expect(!verify(signature, over: message, by: flipped(publicKey, bit)), "bit \(bit) of the key")
        }
        for bit in 0..<8 * message.count {
            #expect(!verify(signature, over: flipped(message, bit), by: publicKey), "bit \(bit) of the message")
        }
    }

    @Test("messages of all lengths around the blocks of SHA-512 verify, and a signature of another length does not")
    func lengths() throws {
        let key = try PrivateKey(seed: [UInt8](repeating: 8, count: 32))
        let publicKey = key.publicKey.bytes
        for count in Array(0...200) + [1023, 1024, 5000] {
            let message = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            #expect(verify(try key.sign(message), over: message, by: publicKey), "\(count) bytes")
        }
        let signature = try key.sign([])
        for count in 0..<64 { #expect(!verify(Array(signature.prefix(count)), over: [], by: publicKey)) }
        #expect(!verify(signature + [0], over: [], by: publicKey))
        #expect(!verify(signature + signature, over: [], by: publicKey))
    }

    @Test("the verdict about a random valid or changed signature is libcrypto's verdict")
    func random() throws { try compare(count: 500, seed: 1) }
}

@Suite("Ed25519 verifier for devices: many signatures") struct ExhaustiveEd25519Tests {
    @Test("the verdict about each of 5000 random valid or changed signatures is libcrypto's verdict")
    func random() throws { try compare(count: 5000, seed: 2) }
}

/// Compares the verdicts about signatures that are valid, or have one change.
private func compare(count: Int, seed: UInt64) throws {
    var random = SplitMix64(seed: seed)
    func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) } }
    /// S + L, which libcrypto and the verifier refuse.
    func plusOrder(_ s: ArraySlice<UInt8>) -> [UInt8] {
        let order = Hex.decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010") ?? []
        var carry: UInt16 = 0
        return zip(s, order).map { s, order in
            carry = carry >> 8 + UInt16(s) + UInt16(order)
            return UInt8(truncatingIfNeeded: carry)
        }
    }
    var accepted = 0
    var key = try PrivateKey(seed: bytes(32))
    for number in 0..<count {
        if number % 20 == 0 { key = try PrivateKey(seed: bytes(32)) }
        var publicKey = key.publicKey.bytes
        var message = bytes(Int.random(in: 1...300, using: &random))
        var signature = try key.sign(message)
        switch number % 8 {
        case 0, 1: break
        case 2: signature[Int.random(in: 0..<64, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
        case 3: publicKey[Int.random(in: 0..<32, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
        case 4: message[Int.random(in: 0..<message.count, using: &random)] ^= 0x10
        case 5:
            for _ in 0..<Int.random(in: 1...14, using: &random) {
                signature = signature.prefix(32) + plusOrder(signature.suffix(32))
            }
        case 6: publicKey = bytes(32)
        // A key or an R with a small number y, or with a number just below 2^255.
        default:
            let filler: UInt8 = Bool.random(using: &random) ? 0 : 0xFF
            var point = bytes(1) + [UInt8](repeating: filler, count: 31)
            point[31] = filler & 0x7F | (Bool.random(using: &random) ? 0x80 : 0)
            if Bool.random(using: &random) { publicKey = point } else { signature = point + signature.suffix(32) }
        }
        let verdict = verify(signature, over: message, by: publicKey)
        if verdict { accepted += 1 }
        let expected = try hostVerify(signature, over: message, by: publicKey)
        #expect(verdict == expected, "number \(number)")
    }
    #expect(accepted >= count / 4)
}
