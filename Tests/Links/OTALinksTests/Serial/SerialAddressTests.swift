import OTAEngine
import OTALinks
import Testing

@Suite("Serial device addresses") struct SerialAddressTests {
    @Test(
        "a serial address has a path, and a baud rate of 115200 by default",
        arguments: [
            ("/dev/ttyACM0", "/dev/ttyACM0", 115_200), ("/dev/ttyUSB1?baud=9600", "/dev/ttyUSB1", 9600),
            ("/dev/ttyUSB1?framing=raw&baud=9600", "/dev/ttyUSB1", 9600),
            ("/dev/serial/by-id/usb-ZEPHYR-if00?baud=1000000", "/dev/serial/by-id/usb-ZEPHYR-if00", 1_000_000),
        ])
    func addresses(_ text: String, _ path: String, _ baudRate: Int) throws {
        let address = try SerialAddress(parsing: text)
        #expect((address.path, address.baudRate) == (path, baudRate))
        #expect(try SerialAddress(parsing: address.description) == address)
    }

    @Test(
        "a serial address can name the framing, and without it the framing is detected",
        arguments: [
            ("/dev/ttyACM0", nil), ("/dev/ttyACM0?framing=console", .console), ("/dev/ttyACM0?framing=raw", .raw),
            ("/dev/ttyACM0?baud=9600&framing=raw-cobs", .rawCOBS),
        ] as [(String, SerialFraming?)])
    func framings(_ text: String, _ framing: SerialFraming?) throws {
        let address = try SerialAddress(parsing: text)
        #expect(address.framing == framing && address.description == text)
    }

    @Test(
        "a malformed serial address is refused",
        arguments: [
            "", "/", "ttyACM0", "?baud=9600", "/dev/ttyACM0?", "/dev/ttyACM0?baud", "/dev/ttyACM0?baud=",
            "/dev/ttyACM0?baud=1",
            "/dev/ttyACM0?speed=9600", "/dev/ttyACM0?baud=9600&x=1",
            "/dev/ttyACM0?framing=", "/dev/ttyACM0?framing=cobs", "/dev/ttyACM0?framing=raw&framing=raw",
            "/dev/ttyACM0?framing=raw&",
        ])
    func others(_ text: String) { #expect(throws: AddressError.self) { try SerialAddress(parsing: text) } }

    @Test("the hint for a port name without a path has the complete path")
    func theHintHasTheWholePath() {
        let error = #expect(throws: AddressError.self) { try SerialAddress(parsing: "ttyUSB3") }
        #expect(error?.hint == "use --device serial:/dev/ttyUSB3; list the serial ports: ls /dev/serial/by-id")
    }
}
