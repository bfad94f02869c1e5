import OTASigning

/// Accepted JSON, envelopes and statements must be equal after they are written and parsed again.
enum AttestationFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let json = try? JSON(parsing: bytes[...]) {
            if (try? JSON(parsing: json.text[...])) != json { return "the JSON differs after it is written again" }
            if json.text.contains(where: { $0 < 0x20 }) { return "the JSON has more than one line" }
        }
        if let finding = check(payload: bytes) { return finding }
        guard let file = try? AttestationFile(parsing: bytes) else { return nil }
        for envelope in file.envelopes {
            if (try? AttestationEnvelope(parsing: envelope.line[...])) != envelope {
                return "the envelope differs after it is written again"
            }
            if let finding = check(payload: envelope.payload) { return finding }
        }
        return nil
    }

    private static func check(payload: [UInt8]) -> String? {
        guard let statement = try? Statement(parsing: payload) else { return nil }
        // A digest that is not SHA-256 is not kept.
        guard statement.subjects.allSatisfy({ $0.digest != nil }) else { return nil }
        let again = try? Statement(parsing: statement.json.text)
        return again == statement ? nil : "the statement differs after it is written again"
    }
}
