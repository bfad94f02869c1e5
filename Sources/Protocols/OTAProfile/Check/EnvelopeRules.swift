import OTAFirmware
import OTASigning
import OTAUpdate

/// The rules of the section "States" about FINISH of an envelope. They need no signature by a trusted key.
extension CheckRule {
    static let ofEnvelopes = [
        CheckRule(
            "finish-incomplete", "states", "Refuses FINISH of an incomplete envelope with 3, and keeps it open",
            fix: "compare the offset with the size before you verify the object",
            [.open(158)], CheckStep.transfer { _ in 100 },
            [
                .ask(CheckRequest.finish, expecting: .badState, "FINISH after 100 of 158 bytes"),
                .state(.envelope, "after FINISH of an incomplete envelope"), .sync({ _ in 0 }, offset: { _ in 100 }),
            ]),
        refusal(
            "envelope-digest", "Refuses an envelope with another digest than BEGIN with 16", .digestMismatch,
            fix: "compare the first 8 bytes of the SHA-256 before you parse the envelope",
            digest: Array(repeating: 0xA5, count: 8)
        ) { _ in [UInt8](repeating: 0x4F, count: 158) },
        refusal(
            "envelope-malformed", "Refuses an envelope of arbitrary bytes with 5", .envelopeMalformed,
            fix: "check the magic and all lengths of the envelope"
        ) { _ in (0..<158).map { UInt8(truncatingIfNeeded: $0 &* 13) } },
        refusal(
            "envelope-truncated", "Refuses an envelope without its last byte with 5", .envelopeMalformed,
            fix: "check each length against the rest of the envelope before you read the bytes"
        ) { memory in Array((sample(memory)?.bytes ?? []).dropLast()) },
        refusal(
            "envelope-too-long", "Refuses an envelope with an additional byte with 5", .envelopeMalformed,
            fix: "the last signature must end at the end of the envelope"
        ) { memory in (sample(memory)?.bytes ?? []) + [0] },
        refusal(
            "envelope-critical", "Refuses an unknown critical field with 6", .criticalField,
            fix: "refuse each unknown field whose type has the bit 0x8000"
        ) { memory in sample(memory, unknown: [ManifestField(type: 0xBFFE, value: [1])])?.bytes ?? [] },
        refusal(
            "envelope-untrusted", "Refuses an envelope that no trusted key has signed with 7", .untrusted,
            fix: "count only signatures by the keys of the list, and check them before the product"
        ) { memory in sample(memory)?.bytes ?? [] },
        refusal(
            "envelope-forged", "Refuses a wrong signature in the name of a trusted key with 7", .untrusted,
            fix: "verify each signature by a key of the list; one wrong signature refuses the envelope"
        ) { memory in sample(memory, key: memory.firstInfo?.keys.first)?.bytes ?? [] },
    ]

    /// A rule that sends an envelope, expects a status of FINISH, and checks that nothing was accepted.
    ///
    /// - Parameter digest: the digest prefix in BEGIN; nil: the right one.
    private static func refusal(
        _ name: String, _ statement: String, _ status: DeviceStatus, fix: String, digest: [UInt8]? = nil,
        _ envelope: @escaping @Sendable (CheckMemory) -> [UInt8]
    ) -> CheckRule {
        CheckRule(
            name, "states", statement, fix: fix,
            skipped: {
                envelope($0).count > $0.limits.longestEnvelope ? "the longest envelope is too short for it" : nil
            },
            CheckStep.deliver(digest: digest, envelope),
            [
                .ask(CheckRequest.finish, expecting: status, "FINISH"), .state(.idle, "after a refused envelope"),
                .ask(CheckRequest.begin(2, size: 600), expecting: .badState, "BEGIN image after a refused envelope"),
            ])
    }

    /// An envelope with a valid form for this device. Its only signature is wrong.
    ///
    /// - Parameter key: the ID of the signing key; nil: a key that no device has.
    private static func sample(
        _ memory: CheckMemory, key: KeyID? = nil, unknown: [ManifestField] = []
    ) -> Envelope? {
        guard let info = memory.firstInfo, let product = ProductName(info.product),
            let version = SemanticVersion("1.0.0"), let key = key ?? KeyID(bytes: Array(repeating: 0xC7, count: 8)),
            let signature = BundleSignature(.ed25519, keyID: key, signature: Array(repeating: 0x11, count: 64)),
            let manifest = try? Manifest(
                imageFormat: ImageFormat(rawValue: info.imageFormat) ?? .raw, imageSize: 600,
                securityCounter: info.securityCounter, created: 1_767_225_600,
                imageDigest: SHA256.digest(of: []), version: version, product: product, source: "device-check",
                unknownFields: unknown)
        else { return nil }
        return try? Envelope(manifest: manifest, signatures: [signature])
    }
}

extension CheckStep {
    /// Opens and sends an envelope.
    ///
    /// - Parameter digest: the digest prefix in BEGIN; nil: the right one.
    static func deliver(
        digest: [UInt8]? = nil, _ envelope: @escaping @Sendable (CheckMemory) -> [UInt8]
    ) -> [CheckStep] {
        [
            .prepare { $0.object = envelope($0) },
            begin {
                CheckRequest.begin(1, size: $0.object.count, digest: digest ?? SHA256.digest(of: $0.object).prefix)
            },
        ] + transfer { $0.object.count }
    }

    /// Asks BEGIN, and continues at the offset of its answer.
    static func begin(
        _ request: @escaping @Sendable (CheckMemory) -> [UInt8],
        _ check: @escaping @Sendable (inout CheckMemory, Position) throws(Deviation) -> Void = { _, _ in }
    ) -> CheckStep {
        .position(request, "BEGIN") { (memory, position) throws(Deviation) in
            guard position.offset <= memory.object.count, position.crc == memory.crc(position.offset) else {
                throw Deviation("the position is \(position.text), which is not the CRC of the object")
            }
            try check(&memory, position)
            (memory.next, memory.offset, memory.furthest, memory.stalls) = (
                position.next, position.offset, position.offset, 0
            )
        }
    }
}
