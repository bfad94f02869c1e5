import BlueZ
import OTABlueZ
import Testing

struct BLEAddressTests {
    @Test func readsTheThreeForms() throws {
        let device = try #require(BluetoothAddress("AA:BB:CC:DD:EE:FF"))
        #expect(BLEAddress("AA:BB:CC:DD:EE:FF") == .device(device))
        #expect(BLEAddress("aa:bb:cc:dd:ee:ff") == .device(device))
        #expect(BLEAddress("name=Kitchen = 1") == .name("Kitchen = 1"))
        #expect(BLEAddress("") == .only)
    }

    @Test(arguments: ["AA:BB:CC:DD:EE:FF", "name=Kitchen", ""])
    func writesWhatItReads(_ text: String) { #expect(BLEAddress(text)?.description == text) }

    @Test(arguments: ["name=", "Kitchen", "AA:BB:CC:DD:EE", "name", " "])
    func refusesAnythingElse(_ text: String) { #expect(BLEAddress(text) == nil) }
}
