import FoundationEssentials
import OTAFirmware

/// `manifest.json` of a package for nRF Connect Device Manager, as the nRF Connect SDK writes it: what of it is used.
struct PackageManifest: Decodable {
    static let name = "manifest.json"

    struct File: Decodable {
        let file: String
        let type: String?
        let board: String?
        /// In bytes.
        let size: Int?
        /// The nRF Connect SDK writes numbers of its own as text.
        let imageIndex: Number?
        let versionMCUboot: String?

        /// Of the device's images, which it is for.
        var number: UInt32 { imageIndex?.value ?? 0 }

        private enum CodingKeys: String, CodingKey {
            case file, type, board, size
            case imageIndex = "image_index"
            case versionMCUboot = "version_MCUBOOT"
        }
    }

    /// A number, or the decimal text of one.
    struct Number: Decodable {
        let value: UInt32

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                guard let number = Numeral.value(text, in: 0...UInt32.max) else {
                    throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number")
                }
                value = number
            } else {
                value = try container.decode(UInt32.self)
            }
        }
    }

    let files: [File]

    /// - Throws: `bad-package-manifest`.
    init(parsing json: [UInt8]) throws(PackageError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw PackageError(.badManifest, "its manifest.json does not list files as Device Manager's packages do")
        }
    }
}
