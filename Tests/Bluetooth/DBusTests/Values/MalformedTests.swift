import DBus
import Testing

/// If one of these inputs reached libdbus, libdbus would abort the process, or the bus would close the connection.
@Suite("Malformed values and names")
struct MalformedTests {
    static let nested = (0..<65).reduce(DBusValue.byte(1)) { inner, _ in .variant(inner) }

    static let values: [DBusValue] = [
        "a\0b",
        .objectPath(""), .objectPath("org"), .objectPath("/org/"), .objectPath("//"), .objectPath("/a-b"),
        .objectPath("/a\0"), .objectPath("/ä"),
        .array(of: .string, ["a", 1]), .array(of: .byte, [.byte(1)]),
        .array(of: .structure([.byte]), [.structure([.byte(1), .byte(2)])]),
        .dictionary(key: .string, value: .variant, ["a": 1]),
        .dictionary(key: .string, value: .variant, [1: .variant(1)]),
        .dictionary(key: .variant, value: .string, [:]),
        .structure([]), .variant(.structure([])), .array(of: .structure([]), []),
        .variant(.objectPath("x")), .structure([.array(of: .string, ["\0"])]),
        nested,
        .bytes(Array(repeating: 0, count: 1 << 26)),
    ]

    @Test("malformed values throw invalidArguments, and the connection stays usable")
    func valuesAreRefused() async throws {
        try await Peer.run { _, peer in
            for value in Self.values {
                await #expect(throws: DBusError(.invalidArguments, "")) { try await peer.call("Echo", value) }
            }
            let alive = try await peer.call("Echo", "alive")
            #expect(alive == ["alive"])
        }
    }

    @Test("malformed names and paths throw invalidArguments, and the connection stays usable")
    func namesAreRefused() async throws {
        try await Peer.run { connection, _ in
            for (destination, path, interface, member) in [
                ("", "/", "a.b", "M"), ("org example", "/", "a.b", "M"), ("nodots", "/", "a.b", "M"),
                ("a.b\0", "/", "a.b", "M"), (Peer.name, "nopath", "a.b", "M"),
                (Peer.name, "/", "ab", "M"), (Peer.name, "/", "", "M"), (Peer.name, "/", "a.b", "1M"),
                (Peer.name, "/", "a.b", ""), (Peer.name, "/", "a.b", String(repeating: "M", count: 256)),
            ] {
                await #expect(throws: DBusError(.invalidArguments, "")) {
                    try await connection.call(destination, DBusObjectPath(path), interface, member)
                }
                await #expect(throws: DBusError(.invalidArguments, "")) {
                    try await connection.callWithoutReply(destination, DBusObjectPath(path), interface, member)
                }
            }
            await #expect(throws: DBusError(.invalidArguments, "")) { try await connection.emit("/", "x", "M") }
            await #expect(throws: DBusError(.invalidArguments, "")) { try await connection.requestName("x") }
            await #expect(throws: DBusError(.invalidArguments, "")) { try await connection.owners(of: "x") }
            for match in [
                DBusMatch(sender: "x"), DBusMatch(path: "x"), DBusMatch(pathNamespace: "/x/"),
                DBusMatch(interface: "x"),
                DBusMatch(member: "x.y"), DBusMatch(firstArgument: "\0"),
            ] {
                await #expect(throws: DBusError(.invalidArguments, "")) {
                    try await connection.signals(matching: match)
                }
            }
            let names = try await connection.call(
                "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListNames")
            #expect(try names.require(0, \.strings).contains(Peer.name))
        }
    }

    /// 64 is the limit of the bus.
    @Test("a value with 64 nested variants crosses the bus")
    func theDeepestValue() async throws {
        try await TestBus.withConnection { connection, _ in
            try await connection.export("/", [.echo])
            let deepest = (0..<64).reduce(DBusValue.byte(1)) { inner, _ in .variant(inner) }
            let echoed = try await connection.call(connection.uniqueName, "/", "org.example.Echo", "Echo", [deepest])
            #expect(echoed == [deepest])
        }
    }
}

extension DBusInterface {
    /// An interface whose method `Echo` returns its argument, a variant.
    static let echo = DBusInterface(
        "org.example.Echo",
        methods: [
            DBusMethod("Echo", takes: [DBusArgument("in", .variant)], returns: [DBusArgument("out", .variant)]) {
                $0.arguments
            }
        ])
}
