import BlueZ
import OTAFirmware
import OTAProfile
import OTAUpdate

/// What a device in reach tells of itself.
struct DeviceIdentity: Sendable {
    /// Nil: it has no word for it.
    var product: String?
    var version: String
}

extension DeviceIdentity {
    /// Of a device with the GATT OTA profile, which lets it be read.
    init(readFrom connection: DeviceConnection) async throws {
        let info = try await connection.read(connection.characteristic(ProfileChannel.info))
        let version = try await connection.read(connection.characteristic(ProfileChannel.version))
        do throws(FrameError) {
            product = try DeviceInfo(parsing: info).product
        } catch {
            throw UpdateError(.protocolViolation, error.context)
        }
        guard let version = SemanticVersion(String(decoding: version, as: UTF8.self)) else {
            throw UpdateError(.protocolViolation, "its version is not SemVer")
        }
        self.version = version.text
    }
}
