import BlueZ
import OTAFirmware
import OTAProfile
import OTAUpdate

/// The product and version of a device in range.
struct DeviceIdentity: Sendable {
    /// Nil if the device does not report a product.
    var product: String?
    var version: String
}

extension DeviceIdentity {
    /// Reads the characteristics of a device with the GATT OTA profile.
    init(readFrom connection: DeviceConnection) async throws {
        let info = try await connection.read(connection.characteristic(ProfileChannel.info))
        let version = try await connection.read(connection.characteristic(ProfileChannel.version))
        do throws(FrameError) {
            product = try DeviceInfo(parsing: info).product
        } catch {
            throw UpdateError(.protocolViolation, error.context)
        }
        guard let version = SemanticVersion(String(decoding: version, as: UTF8.self)) else {
            throw UpdateError(.protocolViolation, "the device's version is not a SemVer version")
        }
        self.version = version.text
    }
}

extension DeviceConnection {
    /// Returns the characteristic of a channel.
    ///
    /// - Throws: `no-such-object` if the device does not have it.
    nonisolated func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        try characteristic(BluetoothUUID(channel.characteristic), of: BluetoothUUID(channel.service))
    }
}
