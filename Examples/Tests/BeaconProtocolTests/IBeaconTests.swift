import BeaconProtocol
import BlueZ
import Testing

@Suite("iBeacon")
struct IBeaconTests {
    /// From a beacon of the AirLocate sample (UUID E2C56DB5-DFFB-48D2-B060-D0F5A71096E0), as scanners print it.
    private static let data: [UInt8] = [
        0x02, 0x15, 0xE2, 0xC5, 0x6D, 0xB5, 0xDF, 0xFB, 0x48, 0xD2, 0xB0, 0x60, 0xD0, 0xF5, 0xA7, 0x10, 0x96, 0xE0,
        0x00, 0x01, 0x80, 0x02, 0xC5,
    ]

    @Test("the data of a known beacon is decoded, and encoded to the same bytes")
    func knownBeacon() throws {
        let beacon = try #require(IBeacon(manufacturerData: Self.data))
        #expect(beacon.uuid.description == "e2c56db5-dffb-48d2-b060-d0f5a71096e0")
        #expect(beacon.major == 1 && beacon.minor == 0x8002)
        #expect(beacon.measuredPower == -59)
        #expect(beacon.manufacturerData == Self.data)
    }

    @Test("data with another length or another type is not an iBeacon")
    func otherData() {
        for length in 0..<Self.data.count { #expect(IBeacon(manufacturerData: Array(Self.data.prefix(length))) == nil) }
        #expect(IBeacon(manufacturerData: Self.data + [0]) == nil)
        for (index, byte) in [(0, 0x10), (1, 0x14)] as [(Int, UInt8)] {
            var other = Self.data
            other[index] = byte
            #expect(IBeacon(manufacturerData: other) == nil)
        }
    }

    /// 20 dB are a factor of 100 in power, and the power falls with the square of the distance.
    @Test(
        "the estimated distance is 1 m at the measured power, and 10 m at 20 dB less",
        arguments: [(-59, 1.0), (-79, 10), (-39, 0.1)])
    func distance(_ rssi: Int, _ metres: Double) throws {
        let beacon = try #require(IBeacon(manufacturerData: Self.data))
        #expect(abs(beacon.distance(rssi: rssi) - metres) < 1e-9)
    }
}
