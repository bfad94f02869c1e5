import BeaconProtocol
import BlueZ
import Testing

@Suite("Beacon settings")
struct BeaconSettingsTests {
    private static let settings = BeaconSettings(
        uuid: BluetoothUUID(0xE2C5_6DB5_DFFB_48D2_B060_D0F5_A710_96E0), major: 1, minor: 0x8002,
        transmission: Transmission(powerCode: 2, interval: 160))
    /// Written by hand from the description of the service.
    private static let values: [(BluetoothUUID, [UInt8])] = [
        (
            BeaconService.identifier,
            [
                0xE2, 0xC5, 0x6D, 0xB5, 0xDF, 0xFB, 0x48, 0xD2, 0xB0, 0x60, 0xD0, 0xF5, 0xA7, 0x10, 0x96, 0xE0,
            ]
        ),
        (BeaconService.numbers, [0x01, 0x00, 0x02, 0x80]),
        (BeaconService.transmission, [0x02, 0x00, 0xA0, 0x00]),
    ]

    @Test("the service and its characteristics have consecutive UUIDs")
    func uuids() {
        #expect(BeaconService.uuid.description == "2173e519-9155-4862-ab64-7953ab146156")
        #expect(
            [BeaconService.identifier, BeaconService.numbers, BeaconService.transmission].map(\.value)
                == (1...3).map { BeaconService.uuid.value + $0 })
    }

    @Test("each characteristic has its bytes, and decodes them to the same settings")
    func values() throws {
        var decoded = BeaconSettings(
            uuid: BluetoothUUID(0), major: 0, minor: 0, transmission: Transmission(powerCode: 0, interval: 0))
        for (characteristic, bytes) in Self.values {
            #expect(Self.settings.value(of: characteristic) == bytes)
            try decoded.decode(bytes, of: characteristic)
        }
        #expect(decoded == Self.settings)
    }

    @Test("a value with another length is refused and changes nothing")
    func wrongLengths() {
        for (characteristic, bytes) in Self.values {
            for length in 0...20 where length != bytes.count {
                var settings = Self.settings
                #expect(throws: BeaconRefusal.wrongLength) {
                    try settings.decode([UInt8](repeating: 0, count: length), of: characteristic)
                }
                #expect(settings == Self.settings)
            }
        }
    }

    @Test("another characteristic has no value and is refused")
    func otherCharacteristic() {
        var settings = Self.settings
        #expect(settings.value(of: BeaconService.uuid) == nil)
        #expect(throws: BeaconRefusal.unknownAttribute) { try settings.decode([0], of: BeaconService.uuid) }
    }

    @Test("the differences from the written settings name each setting with both values")
    func differences() {
        var stored = Self.settings
        #expect(stored.differences(from: Self.settings) == "")
        (stored.major, stored.transmission) = (300, Transmission(powerCode: 1, interval: 400))
        #expect(
            stored.differences(from: Self.settings)
                == "major 300 instead of 1, power -6 dB instead of 0 dB, interval 250.0 ms instead of 100.0 ms")
    }

    @Test("the codes 0, 1 and 2 mean -23, -6 and 0 dB; every other code is refused")
    func powers() throws {
        for (code, power) in [(0, -23), (1, -6), (2, 0)] as [(UInt16, Int)] {
            let transmission = Transmission(powerCode: code, interval: 160)
            #expect(transmission.power == power)
            #expect(Transmission.powerCode(of: power) == code)
            try transmission.check()
        }
        for code: UInt16 in 3...(.max) {
            #expect(throws: BeaconRefusal.unknownPower) { try Transmission(powerCode: code, interval: 160).check() }
        }
        #expect(Transmission.powerCode(of: -1) == nil)
    }

    @Test("an interval is valid from 100 ms to 10.24 s")
    func intervals() {
        for interval: UInt16 in 0...(.max) {
            let transmission = Transmission(powerCode: 0, interval: interval)
            let isValid = (try? transmission.check()) != nil
            #expect(isValid == (100...10_240).contains(transmission.milliseconds))
        }
    }

    @Test("milliseconds are rounded to units of 0.625 ms; too many or too few do not fit")
    func milliseconds() {
        #expect(Transmission.interval(milliseconds: 100) == 160)
        #expect(Transmission.interval(milliseconds: 10_240) == 16_384)
        #expect(Transmission.interval(milliseconds: 100.4) == 161)
        #expect(Transmission.interval(milliseconds: 40_959.375) == .max)
        for milliseconds in [40_960, -1, .infinity, .nan] as [Double] {
            #expect(Transmission.interval(milliseconds: milliseconds) == nil)
        }
    }

    @Test("a refusal is found in the error of a write, and in no other error")
    func refusals() {
        #expect(BeaconRefusal(BlueZError(.invalidLength, "")) == .wrongLength)
        for refusal in BeaconRefusal.allCases {
            #expect(BeaconRefusal(BlueZError(.attributeError, "", attributeError: refusal.rawValue)) == refusal)
            #expect(refusal.attributeError.code == refusal.rawValue)
        }
        #expect(BeaconRefusal(BlueZError(.attributeError, "", attributeError: 0x82)) == nil)
        #expect(BeaconRefusal(BlueZError(.disconnected, "")) == nil)
    }
}
