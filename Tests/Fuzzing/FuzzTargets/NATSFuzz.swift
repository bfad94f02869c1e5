import NATS

/// Reads the input as answers of a NATS server, as the reply subject of a delivered message, and as an NKey seed.
///
/// An accepted description of an object must be equal after it is written and parsed again, and it must not name other subjects.
enum NATSFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        _ = try? JetStreamJSON.decode(PublicationAnswer.self, bytes, "")
        _ = try? JetStreamJSON.decode(ConsumerAnswer.self, bytes, "")
        _ = DeliveryPosition(String(decoding: bytes, as: UTF8.self))
        if let key = NKey.publicKey(ofSeed: bytes), key.utf8.count != 56 || key.utf8.first != UInt8(ascii: "U") {
            return "a public key is malformed"
        }
        guard let description = ObjectDescription(parsing: bytes) else { return nil }
        guard let json = description.json, ObjectDescription(parsing: json) == description else {
            return "the description differs after it is written again"
        }
        if description.digest.count != 32 { return "a digest that does not have 32 bytes" }
        return description.identifier.utf8.contains { [0x20, 0x2A, 0x2E, 0x3E].contains($0) }
            ? "an unsafe identifier" : nil
    }
}

/// Reads the input as the line `INFO` of a NATS server, which arrives before the login, and as the address of a server.
enum NATSServerFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let information = try? ServerInformation(parsing: bytes) {
            if !bytes.starts(with: Array("INFO ".utf8)) { return "a line without INFO is accepted" }
            if information.cluster?.isEmpty == true { return "the name of the cluster is empty" }
            if information.maximumPayload < 0 { return "the maximum size of a message is negative" }
        }
        guard let (host, port) = ServerInformation.endpoint(of: String(decoding: bytes, as: UTF8.self)) else {
            return nil
        }
        return host.isEmpty || port.isEmpty || host.contains("/") ? "the host or the port is malformed" : nil
    }
}
