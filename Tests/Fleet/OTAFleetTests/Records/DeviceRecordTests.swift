import OTAFirmware
import OTAFleet
import Testing

@Suite("Records of devices") struct DeviceRecordTests {
    private static let text = """
        {"schema":1,"device":"ble-AABBCCDDEEFF","product":"acme-thermostat","version":"1.3.0","rollout":"t-140",\
        "rollout_created":"2026-11-22T18:00:00Z","state":"running","phase":"transfer","attempt":2,"gateway":"berlin-7",\
        "instance":"4f1c09ab","beat":12,"offset":40960,"total":131072,"reason":"link-lost","retry_after":60,\
        "groups":["berlin"],"at":"2026-11-22T18:00:01Z"}
        """

    @Test("a record is written as it was read")
    func roundTrip() throws {
        let record = try DeviceRecord(parsing: Array(Self.text.utf8))
        #expect(try String(decoding: record.encoded(), as: UTF8.self) == Self.text)
        #expect(record.holder?.instance.text == "4f1c09ab" && record.beat == 12 && record.offset == 40960)
    }

    @Test("members that this version does not know stay in the record, also after a change")
    func unknownMembers() throws {
        let extended = Self.text.replacing(#""state""#, with: #""newer":{"a":[1.50,null]},"state""#)
        let record = try DeviceRecord(parsing: Array(extended.utf8))
        #expect(try String(decoding: record.encoded(), as: UTF8.self) == extended)
        let holder = try #require(record.holder)
        let next = try record.changed(.beat(.transfer, offset: 50000, total: nil, by: holder), at: nil)
        #expect(try String(decoding: next.encoded(), as: UTF8.self).contains(#""newer":{"a":[1.50,null]}"#))
    }

    @Test("a record with a higher schema number is too new")
    func tooNew() {
        let newer = Self.text.replacing(#""schema":1"#, with: #""schema":2"#)
        #expect(throws: FleetError(.tooNew, "")) { try DeviceRecord(parsing: Array(newer.utf8)) }
    }

    @Test("a record of 4096 bytes is read and written, and a larger record is refused")
    func size() throws {
        func padded(_ count: Int) -> [UInt8] {
            let padding = String(repeating: "x", count: count - Self.text.utf8.count - #","x":"""#.utf8.count)
            return Array(Self.text.replacing(#"Z"}"#, with: #"Z","x":"\#(padding)"}"#).utf8)
        }
        #expect(padded(4096).count == 4096)
        let record = try DeviceRecord(parsing: padded(4096))
        #expect(try record.encoded().count == 4096)
        #expect(throws: FleetError(.tooLarge, "")) { try DeviceRecord(parsing: padded(4097)) }
        var larger = record
        larger.version = SemanticVersion("1.3.0-rc.1")
        #expect(throws: FleetError(.tooLarge, "")) { try larger.encoded() }
    }

    @Test(
        "a malformed record is refused",
        arguments: [
            (#""schema":1,"#, ""), (#""schema":1"#, #""schema":0"#), (#""schema":1"#, #""schema":1.0"#),
            (#""device":"ble-AABBCCDDEEFF","#, ""), ("ble-AABB", "ble:AABB"),
            (#""state":"running""#, #""state":"runing""#),
            (#""attempt":2"#, #""attempt":-2"#), (#""attempt":2"#, #""attempt":"2""#),
            (#""attempt":2"#, #""attempt":null"#), (#""attempt":2"#, #""attempt":0"#),
            (#""attempt":2"#, #""attempt":99999999999999999999"#), (#""attempt":2"#, #""attempt":4294967296"#),
            (#""instance":"4f1c09ab","#, ""), ("4f1c09ab", "4F1C09AB"), (#""rollout":"t-140","#, ""),
            ("2026-11-22T18:00:01Z", "2026-11-31T18:00:01Z"), ("2026-11-22T18:00:01Z", "2026-11-22T18:00:01+00:00"),
            (#"["berlin"]"#, #"["ber lin"]"#), (#"["berlin"]"#, #""berlin""#), (#""beat":12"#, #""beat":12,"beat":13"#),
            ("}", ""), ("}", "}}"),
        ])
    func malformed(part: String, replacement: String) throws {
        let text = Self.text.replacing(part, with: replacement)
        #expect(text != Self.text)
        #expect(throws: FleetError(.malformed, "")) { try DeviceRecord(parsing: Array(text.utf8)) }
    }

    @Test("a record with any byte changed is read or refused, without a trap")
    func anyByte() {
        var read = 0
        for index in Self.text.utf8.indices {
            var bytes = Array(Self.text.utf8)
            let place = Self.text.utf8.distance(from: Self.text.startIndex, to: index)
            for mask: UInt8 in [0x01, 0x04, 0x20, 0x80] {
                bytes[place] ^= mask
                if (try? DeviceRecord(parsing: bytes)) != nil { read += 1 }
                bytes[place] ^= mask
            }
        }
        #expect(read > 0)
    }

    @Test("names have 1 to 64 letters, digits, _ and -")
    func names() {
        #expect(DeviceID("ble-AABBCCDDEEFF") != nil && DeviceID(String(repeating: "a", count: 64)) != nil)
        for text in ["", String(repeating: "a", count: 65), "a.b", "a b", "ä", "a/b", "*", ">"] {
            #expect(DeviceID(text) == nil && GatewayName(text) == nil && RolloutName(text) == nil)
        }
        #expect(
            RolloutName("_index") == nil && Reason("Link") == nil && GatewayInstance(0x4f1c_09ab).text == "4f1c09ab")
        #expect(
            ReleaseID("05b3abf2579a5eb6") != nil && ReleaseID("05B3ABF2579A5EB6") == nil && ReleaseID("05b3") == nil)
    }

    @Test("times are whole seconds in UTC, from 1970 to 9999", arguments: [0, 1, 1_795_370_400, 253_402_300_799])
    func times(seconds: Int64) throws {
        let time = try #require(Timestamp(seconds: seconds))
        #expect(Timestamp(time.description) == time)
        #expect(Timestamp(seconds: -1) == nil && Timestamp(seconds: 253_402_300_800) == nil)
        #expect(time.advanced(by: .max).seconds == 253_402_300_799 && time.advanced(by: .min).seconds == 0)
    }
}
