import OTAFirmware
import OTASigning

/// An MCUboot image among those of a file, with what was found of it.
struct PackagedImage: Encodable, Sendable {
    /// Which of the device's images it is; 0 where the device has one.
    let imageNumber: UInt32
    /// Its name in a package.
    let name: String?
    /// What the package says that it is for; nobody signs that.
    let board: String?
    let image: ImageSummary

    init(_ entry: NumberedFile, _ report: MCUbootReport) {
        imageNumber = entry.number
        name = entry.name
        board = entry.board
        image = ImageSummary(entry.file, report)
    }

    var rows: [(String, String)] {
        let heading = "\(name ?? "")\(board.map { ", for \($0)" } ?? "")"
        return [("Image \(imageNumber)", heading)] + image.rows
    }

    /// That it is verified.
    func sentence(of file: String, isAlone: Bool) -> String {
        let title = name.map { "\($0) in \(file)" } ?? file
        let number = isAlone && imageNumber == 0 ? "" : ", image \(imageNumber)"
        return "\(title) is verified: MCUboot image \(image.version ?? "")\(number), \(image.size) bytes."
    }

    /// What was checked, and what was not.
    var lines: [String] {
        let unsaid = "an MCUboot image does not say for which product or hardware it is"
        return (image.mcuboot?.checked ?? []).map { "  Checked: \($0)" }
            + ((image.notes ?? []) + [unsaid]).map { "  Not checked: \($0)" }
    }
}
