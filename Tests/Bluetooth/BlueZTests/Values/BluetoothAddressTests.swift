import BlueZ
import Testing

@Suite("Bluetooth addresses")
struct BluetoothAddressTests {
    @Test(
        "an address is parsed in any case and written in upper case",
        arguments: ["00:AA:01:00:00:42", "FF:FF:FF:FF:FF:FF", "00:00:00:00:00:00"])
    func writesWhatItReads(_ text: String) throws {
        let address = try #require(BluetoothAddress(text))
        #expect(address.description == text)
        #expect(BluetoothAddress(text.lowercased()) == address)
    }

    @Test(
        "a malformed address is refused",
        arguments: [
            "", "00:AA:01:00:00", "00:AA:01:00:00:42:43", "00:AA:01:00:0:420", "00-AA-01-00-00-42", "00AA01000042",
            "00:AA:01:00:00:4G", "+0:AA:01:00:00:42", " 00:AA:01:00:00:42",
        ])
    func refusesAnythingElse(_ text: String) { #expect(BluetoothAddress(text) == nil) }
}
