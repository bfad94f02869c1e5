import OTAClient
import OTAEngine
import Testing

@Suite("Device addresses") struct DeviceAddressTests {
    @Test(
        "an address without its transport is refused, and the hint has the complete address",
        arguments: [
            ("/dev/ttyACM0", "did you mean --device serial:/dev/ttyACM0?"),
            ("AA:BB:CC:DD:EE:FF", "did you mean --device ble:AA:BB:CC:DD:EE:FF?"),
            ("aa-bb-cc-dd-ee-0f", "did you mean --device ble:AA:BB:CC:DD:EE:0F?"),
            ("192.168.1.5:1337", "did you mean --device udp:192.168.1.5:1337?"),
            ("lamp.local", "did you mean --device udp:lamp.local?"),
            (
                "kitchen",
                "did you mean --device ble:name=kitchen or, for a virtual device, --device sim:kitchen?"
            ),
            (
                "ble:AABBCCDDEEFF",
                "did you mean --device ble:AA:BB:CC:DD:EE:FF? list the devices in range: otaflash scan"
            ),
            ("ble:My $(id)", "did you mean --device 'ble:name=My $(id)'? list the devices in range: otaflash scan"),
            ("ble:kitchen", "did you mean --device ble:name=kitchen? list the devices in range: otaflash scan"),
            ("ble:AA:BB:CC:DD:EE", "list the devices in range: otaflash scan"),
        ])
    func guesses(text: String, hint: String) {
        let error = #expect(throws: AddressError.self) { try DeviceAddress(text) }
        #expect(error?.hint == hint && error?.context.hasPrefix("'\(text)' is not a device address: ") == true)
    }

    @Test(
        "the hint for a text that is like no address names each transport", arguments: ["", "bt:AA:BB", "a b", "COM3:"])
    func namesTheTransports(text: String) {
        let error = #expect(throws: AddressError.self) { try DeviceAddress(text) }
        #expect(error?.hint.hasPrefix("use --device ble:ADDRESS ") == true, "\(error?.hint ?? "")")
    }
}
