import DBus
import Testing

/// The other program uses dbus-fast, an independent implementation of the protocol.
@Suite("D-Bus values on the wire")
struct WireTests {
    /// Values, each with its signature and the text that dbus-fast shows for it.
    static let values: [(DBusValue, signature: String, python: String)] = [
        (.byte(255), "y", "255"),
        (true, "b", "True"),
        (.boolean(false), "b", "False"),
        (.int16(-32768), "n", "-32768"),
        (.uint16(65535), "q", "65535"),
        (.int32(.min), "i", "-2147483648"),
        (.uint32(.max), "u", "4294967295"),
        (.int64(.min), "x", "-9223372036854775808"),
        (.uint64(.max), "t", "18446744073709551615"),
        (.double(-0.1), "d", "-0.1"),
        (.double(.infinity), "d", "inf"),
        ("", "s", "''"),
        ("grün 🦋", "s", "'grün 🦋'"),
        (.objectPath("/org/bluez/hci0"), "o", "'/org/bluez/hci0'"),
        (.objectPath("/"), "o", "'/'"),
        (.bytes([]), "ay", "b''"),
        (.bytes([0, 1, 255]), "ay", "b'\\x00\\x01\\xff'"),
        (["a", "b"], "as", "['a', 'b']"),
        (.strings([]), "as", "[]"),
        (.array(of: .bytes, [.bytes([1]), .bytes([])]), "aay", "[b'\\x01', b'']"),
        (.array(of: .uint64, [.uint64(1), .uint64(2)]), "at", "[1, 2]"),
        (.structure([.byte(1), "x", .structure([.double(2)])]), "(ys(d))", "(1, 'x', (2.0,))"),
        (.array(of: .structure([.byte, .string]), []), "a(ys)", "[]"),
        (.variant(.uint16(7)), "v", "<dbus_fast.signature.Variant ('q', 7)>"),
        (.variant(.variant("in")), "v", "<dbus_fast.signature.Variant ('v', <dbus_fast.signature.Variant ('s', in)>)>"),
        ([:], "a{sv}", "{}"),
        (["on": true], "a{sv}", "{'on': <dbus_fast.signature.Variant ('b', True)>}"),
        (
            .dictionary(key: .uint16, value: .bytes, [.uint16(0xffff): .bytes([2, 0])]), "a{qay}",
            "{65535: b'\\x02\\x00'}"
        ),
        (
            .dictionary(
                key: .objectPath, value: .dictionary(key: .string, value: .properties),
                [
                    .objectPath("/a"): .dictionary(
                        key: .string, value: .properties, ["org.example.I": ["P": .uint16(5)]])
                ]), "a{oa{sa{sv}}}",
            "{'/a': {'org.example.I': {'P': <dbus_fast.signature.Variant ('q', 5)>}}}"
        ),
    ]

    @Test("dbus-fast reads every type of value as it was sent")
    func whatWeSendIsReadThere() async throws {
        try await Peer.run { _, peer in
            for (value, signature, python) in Self.values {
                let description = try await peer.call("Describe", value).require(0, \.string)
                #expect(description == "\(signature) [\(python)]")
            }
        }
    }

    @Test("values that dbus-fast creates are read unchanged")
    func whatIsMadeThereIsReadHere() async throws {
        try await Peer.run { _, peer in
            for (value, signature, python) in Self.values {
                // The `repr` of a variant in dbus-fast is not a Python expression.
                let made = python.replacing("<dbus_fast.signature.Variant (", with: "Variant(")
                    .replacing(")>", with: ")").replacing(", in)", with: ", 'in')").replacing(
                        "inf", with: "float('inf')")
                let reply = try await peer.call("Make", .string(signature), .string("[\(made)]"))
                #expect(reply == [value])
            }
        }
    }

    @Test("a signature can be sent as a value")
    func signaturesAsValues() async throws {
        try await Peer.run { _, peer in
            let value = DBusValue.signature(try DBusSignature("a{sv}i"))
            let description = try await peer.call("Describe", value).require(0, \.string)
            #expect(description.hasPrefix("g ["))
            let echoed = try await peer.call("Echo", value, .signature(try DBusSignature("")))
            #expect(echoed == [value, .signature(try DBusSignature(""))])
        }
    }

    @Test("a message may have many arguments or none")
    func manyArgumentsAndNone() async throws {
        try await Peer.run { _, peer in
            let all = Self.values.map { $0.0 }
            let echoed = try await peer.connection.call(Peer.name, Peer.path, Peer.name, "Echo", all)
            #expect(echoed == all)
            let nothing = try await peer.call("Echo")
            #expect(nothing == [])
        }
    }

    /// The value is larger than one read or write of libdbus.
    @Test("a value of 3 MB crosses the bus unchanged")
    func megabytes() async throws {
        try await Peer.run { _, peer in
            let value = DBusValue.bytes((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
            let echoed = try await peer.call("Echo", value)
            #expect(echoed == [value])
        }
    }

    @Test("300 messages with random values are echoed unchanged")
    func randomValuesComeBack() async throws {
        try await Peer.run { connection, _ in
            var random = RandomValues(seed: 7)
            let messages = (0..<300).map { _ in
                (0..<Int.random(in: 1...3, using: &random.generator)).map { _ in random.value() }
            }
            let calls = messages.map { DBusMethodCall(Peer.name, Peer.path, Peer.name, "Echo", $0) }
            for (sent, answer) in zip(messages, await connection.call(calls)) {
                let came = try answer.get()
                #expect(came == sent)
            }
        }
    }
}
