import BlueZ
import OTABlueZ
import OTASerial
import OTASimulator
import OTAUDP

/// Device addresses as people type them.
enum AddressFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes, as: UTF8.self)
        if let address = try? VirtualDeviceAddress(parsing: text) {
            if !(23...517).contains(address.radio.mtu) { return "an MTU of \(address.radio.mtu)" }
            if let name = address.name, !VirtualDeviceStore.isName(name) { return "a name that is none" }
        }
        if let address = BLEAddress(text), BLEAddress(address.description) != address {
            return "another address comes out"
        }
        _ = BluetoothUUID(text)
        if let address = try? SerialAddress(parsing: text),
            (try? SerialAddress(parsing: address.description)) != address
        {
            return "another serial port comes out"
        }
        if let address = try? UDPAddress(parsing: text), (try? UDPAddress(parsing: address.description)) != address {
            return "another host comes out"
        }
        return nil
    }
}
