import BlueZ
import OTALinks
import Testing

@Suite("Addresses after ble:")
struct BLEAddressTests {
    @Test("an address, a name and the empty text are parsed")
    func readsTheThreeForms() throws {
        let device = try #require(BluetoothAddress("AA:BB:CC:DD:EE:FF"))
        #expect(BLEAddress("AA:BB:CC:DD:EE:FF") == .device(device))
        #expect(BLEAddress("aa:bb:cc:dd:ee:ff") == .device(device))
        #expect(BLEAddress("name=Kitchen = 1") == .name("Kitchen = 1"))
        #expect(BLEAddress("") == .only)
    }

    @Test("the description is the parsed text", arguments: ["AA:BB:CC:DD:EE:FF", "name=Kitchen", ""])
    func writesWhatItReads(_ text: String) { #expect(BLEAddress(text)?.description == text) }

    @Test("other texts are refused", arguments: ["name=", "Kitchen", "AA:BB:CC:DD:EE", "name", " "])
    func refusesAnythingElse(_ text: String) { #expect(BLEAddress(text) == nil) }
}
