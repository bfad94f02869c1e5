import OTAClient
import Testing

@Suite("Record of the installed images that a device never lists") struct DeliveredImagesTests {
    private let now = 2_000_000
    private let first = [UInt8](repeating: 1, count: 32)
    private let second = [UInt8](repeating: 2, count: 32)

    @Test("the record keeps the last image of each device and image number")
    func keepsTheLast() {
        var record = DeliveredImages(parsing: "", at: now)
        record.add(first, number: 1, address: "udp:10.0.0.1:1337", at: now)
        record.add(second, number: 1, address: "udp:10.0.0.1:1337", at: now + 1)
        record.add(first, number: 2, address: "udp:10.0.0.1:1337", at: now + 1)
        record.add(first, number: 1, address: "ble:AA:BB:CC:DD:EE:FF", at: now + 1)
        let read = DeliveredImages(parsing: record.text, at: now + 2)
        #expect(read == record)
        #expect(read.images(of: "udp:10.0.0.1:1337") == [1: second, 2: first])
        #expect(read.images(of: "ble:AA:BB:CC:DD:EE:FF") == [1: first])
        #expect(read.images(of: "udp:10.0.0.2:1337").isEmpty)
    }

    @Test("an entry counts for 24 hours, and not before its time", arguments: [-1, 0, 86_399, 86_400])
    func expires(age: Int) {
        var record = DeliveredImages(parsing: "", at: now)
        record.add(first, number: 1, address: "udp:10.0.0.1:1337", at: now)
        let read = DeliveredImages(parsing: record.text, at: now + age)
        #expect(read.images(of: "udp:10.0.0.1:1337").isEmpty == (age < 0 || age >= 86_400))
    }

    @Test(
        "a malformed line is ignored",
        arguments: [
            "x", "1 2", "1 1 00 udp:a", "1999999 one \(String(repeating: "01", count: 32)) udp:a",
            "99999999999999999999 1 \(String(repeating: "01", count: 32)) udp:a",
            "1999999 1 \(String(repeating: "0g", count: 32)) udp:a",
        ])
    func ignoresMalformedLines(line: String) {
        let valid = "1999999 1 \(String(repeating: "01", count: 32)) udp:a\n"
        let read = DeliveredImages(parsing: line + "\n" + valid + line, at: now)
        #expect(read.text == valid)
    }
}
