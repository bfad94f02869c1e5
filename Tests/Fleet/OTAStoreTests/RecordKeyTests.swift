import OTAStore
import Testing

@Suite("Names of records") struct RecordKeyTests {
    @Test(
        "a name has one or two parts of 1 to 64 ASCII letters, digits, '_' and '-'",
        arguments: [
            "a", "_index", "ble-AABBCCDDEEFF", "udp-192-0-2-1-1337", "ble-AABBCCDDEEFF.berlin-7",
            String(repeating: "z", count: 64) + "." + String(repeating: "9", count: 64),
        ])
    func valid(name: String) throws {
        let record = try #require(RecordName(name))
        #expect(record.description == name && record.parts.joined(separator: ".") == name)
        #expect("\(RecordKey(.sightings, record))" == "sightings/\(name)")
    }

    @Test(
        "a name that is not a subject of a server or a file name is refused",
        arguments: [
            "", ".", "a.", ".a", "a..b", "a.b.c", "a b", "a/b", "a*", ">", "$KV", "é", "a\n", "a\0", "Ⅷ", "a:b",
            String(repeating: "z", count: 65), "a." + String(repeating: "z", count: 65),
        ])
    func invalid(name: String) { #expect(RecordName(name) == nil) }

    @Test("the identifier of an event is different for different events")
    func identifiers() throws {
        func identifier(_ rollout: String, _ device: String, _ attempt: UInt32, _ kind: String) throws -> String {
            let name = try #require(RecordName("g"))
            return FleetEvent(
                rollout: try #require(RecordName(rollout)), device: try #require(RecordName(device)), gateway: name,
                attempt: attempt, kind: try #require(RecordName(kind)), bytes: []
            ).identifier
        }
        #expect(try identifier("a.b", "c", 1, "d") == "a.b/c/1/d")
        #expect(try identifier("a.b", "c", 1, "d") != identifier("a", "b.c", 1, "d"))
        #expect(try identifier("a", "b", 11, "d") != identifier("a", "b", 1, "1.d"))
    }
}
