import Glibc
import OTAFirmware
import OTASigning
import SystemPackage

/// An accepted bundle or envelope must have the same bytes when it is encoded again.
enum BundleFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let bundle = try? SignedBundle(parsing: bytes), bundle.bytes != bytes { return "the encoded bundle differs" }
        if let envelope = try? Envelope(parsing: bytes) {
            if envelope.bytes != bytes { return "the encoded envelope differs" }
            // The shortest manifest has 78 bytes, and the shortest entry 13.
            if !(95...Envelope.maximumLength).contains(bytes.count) { return "an envelope of \(bytes.count) bytes" }
        }
        if let envelope = try? Envelope(parsingPrefix: bytes), !bytes.starts(with: envelope.bytes) {
            return "the envelope differs from the start of the file"
        }
        return nil
    }
}

/// An accepted key must be equal after it is encoded and decoded again.
enum KeyFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        let text = SecretBytes(copying: bytes)
        if let key = try? PublicKey(pem: text) {
            guard let again = try? PublicKey(pem: key.pem()), again == key else {
                return "the decoded public key differs"
            }
        }
        if let key = try? PrivateKey(pem: text, passphrase: Passphrase(SecretBytes(copying: Array("fuzz".utf8)))) {
            guard let again = try? PrivateKey(pem: key.pem()), again.publicKey == key.publicKey else {
                return "the decoded private key differs"
            }
        }
        if let key = try? ImagePublicKey(pem: text) {
            guard let again = try? ImagePublicKey(subjectPublicKeyInfo: key.subjectPublicKeyInfo), again == key else {
                return "the decoded public key of images differs"
            }
        }
        _ = try? ImagePrivateKey(pem: text, passphrase: Passphrase(SecretBytes(copying: Array("fuzz".utf8))))
        return nil
    }
}

/// Reads a trust folder. The input has its files; the first byte of each file selects its name.
enum TrustFolderFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var template = Array("/tmp/otaflash-fuzz-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        let folder = FilePath(platformString: template)
        var names: [FilePath] = []
        for (number, part) in bytes.split(separator: 0, maxSplits: 7).enumerated() {
            // A scope belongs to the previous file. If that file is not a key, the scope has no key.
            let name = ["\(number).pub.pem", "\(number).pem", "\(max(0, number - 1)).pub.pem.scope", "\(number)"]
            let path = folder.appending(name[Int(part.first ?? 0) % 4])
            names.append(path)
            write(Array(part.dropFirst()), to: path)
        }
        defer {
            for name in names { unlink(name.string) }
            rmdir(folder.string)
        }
        if let scope = try? TrustScope(parsing: bytes, of: "scope"), scope.products == nil, scope.formats == nil {
            return "an accepted scope has no limit"
        }
        guard let store = try? TrustStore(paths: [folder]) else { return nil }
        return store.keys.isEmpty ? "an accepted trust store has no key" : nil
    }

    private static func write(_ bytes: [UInt8], to path: FilePath) {
        guard let file = try? FileDescriptor.open(path, .writeOnly, options: [.create], permissions: [.ownerReadWrite])
        else { return }
        _ = try? file.closeAfter { try file.writeAll(bytes) }
    }
}

/// The inspection of an image must have the same result with one piece and with several pieces.
enum ImageFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let formats: [ImageFormat?] = [nil, .raw, .espressif, .mcuboot]
        let format = formats[Int(input.next()) % formats.count]
        let piece = 1 + Int(input.next())
        let image = input.bytes(upTo: bytes.count)
        let whole = try? FirmwareInspector.inspect(image, format: format) { SHA256() }
        var inspector = FirmwareInspector(format: format) { SHA256() }
        let parts = try? inspect(image, in: piece, &inspector)
        if let whole, Int(whole.size) != image.count {
            return "the size is \(whole.size), but the image has \(image.count) bytes"
        }
        return whole == parts ? verification(of: image) : "the result differs with pieces of \(piece) bytes"
    }

    /// The report on an MCUboot image must agree with its verification.
    private static func verification(of image: [UInt8]) -> String? {
        guard let file = try? MCUbootFile(parsing: image) else { return nil }
        let isAccepted = (try? verifier.verify(file)) != nil
        let report = verifier.report(on: file)
        return (report.signature?.holds == true) == isAccepted ? nil : "the report differs from the verification"
    }

    /// Trusts the keys of the MCUboot images in the corpus: ECDSA P-256 and RSA-2048.
    private static let verifier: Verifier = {
        let keys = [
            """
            3059301306072a8648ce3d020106082a8648ce3d03010703420004ca2cb04318095e183eeb79a77aa6adee7e5c5c4f98f884
            9eed54f41b8681fc954360f903fa9cb20a89f3355822efd48d9d06ce2c383e0a4ef9cd954326b0faab
            """,
            """
            30820122300d06092a864886f70d01010105000382010f003082010a0282010100a62e80ba907c807fe92f3c942e8e93d05c
            fd1d3e0d3902e1e5201b14eb8cafb65406190dcefea7bcbb19544a615534879c3366700ccff355ddc1ef230ec83e49621741
            1f02635f8666b42968d0aaa217c056ac1c21a3fb1c4de50e69360dd9131072f7d96647a001ba61c170965c99f9ace3b45440
            ced0abf02e74e4367270a687490917e5f97dabe61b90453554b42faaa7a328a803176650137fd1430e499f9a734a8f321e4a
            014fb2d540fb4937444e41e078929cad0b0f9c31386e7e975366fa362c5c1309e53aa2268083851273ef7041ed16c78d77a8
            818fbd7d852fa9f821ef8400d9f7d4f5b65527142cb118727b0f300978033b08e81f3434c92f890203010001
            """,
        ].compactMap { text in
            Hex.decode(text.filter { !$0.isWhitespace }).flatMap { try? ImagePublicKey(subjectPublicKeyInfo: $0) }
        }
        guard keys.count == 2, let trust = try? TrustStore(imageKeys: keys) else {
            preconditionFailure("the keys are valid")
        }
        return Verifier(trust: trust, policy: TrustPolicy(allowsDemoKey: true))
    }()

    private static func inspect(
        _ image: [UInt8], in piece: Int, _ inspector: inout FirmwareInspector
    ) throws -> FirmwareDescription {
        for start in stride(from: 0, to: image.count, by: piece) {
            try image[start..<min(start + piece, image.count)].withUnsafeBytes { try inspector.update($0) }
        }
        return try inspector.finish()
    }
}

/// An accepted hex text must have an image of 1 to `span` bytes.
enum IntelHexFuzz {
    /// The limit is small, because two distant records would otherwise need a second.
    private static let span = 1 << 16

    static func run(_ bytes: [UInt8]) -> String? {
        for format in [HexFormat.intelHex, .sRecord] {
            guard let hex = try? HexImage(parsing: bytes, as: format, maximumSpan: span) else { continue }
            guard (1...span).contains(hex.bytes.count) else { return "an image of \(hex.bytes.count) bytes" }
        }
        _ = FirmwareFileKind.detect(file: bytes)
        return nil
    }
}
