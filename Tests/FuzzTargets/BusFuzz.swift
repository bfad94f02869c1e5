import DBus

/// Messages as they lie on the wire, of which libdbus has checked the form: what is read can be sent again, and is the same.
enum BusFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        guard let values = try? WireMessage.arguments(of: bytes) else { return nil }
        guard let again = try? WireMessage.bytes(of: values) else { return "what was read cannot be sent" }
        guard let echoed = try? WireMessage.arguments(of: again) else { return "what was sent cannot be read" }
        // Not only the values: a number that is none equals nothing, not even itself.
        return echoed == values || (try? WireMessage.bytes(of: echoed)) == again ? nil : "another message comes out"
    }
}
