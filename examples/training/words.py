"""The words that the generated text is made of."""

NAMES = ("Anna Ben Carla David Emma Frank Grace Henry Iris Jack Karen Leo Maria Nora Oscar Paula Quinn Rosa Sam Tina "
         "Umar Vera Will Yusuf Zoe").split()
FAMILY_NAMES = "Berg Costa Diaz Evans Fischer Garcia Hansen Ito Jensen Khan Lopez Meyer Novak Olsen Park Rossi".split()
ITEMS = ("apples books cards coins eggs marbles pens stickers shells stamps buttons candles lemons nails plates roses "
         "stones tickets bricks cakes").split()
BOXES = [("box", "boxes"), ("bag", "bags"), ("crate", "crates"), ("shelf", "shelves"), ("basket", "baskets"),
         ("tray", "trays"), ("jar", "jars"), ("case", "cases")]
CITIES = "Oslo Rome Paris Lima Cairo Delhi Tokyo Berlin Madrid Quito Dublin Vienna Athens Prague Lagos Boston".split()
LANGUAGES = "English French Spanish German Arabic Hindi Italian Polish Greek Swahili".split()
HOBBIES = "chess tennis painting cooking singing reading cycling hiking dancing sailing".split()
COLORS = "red blue green white black yellow brown grey".split()
GOODS = "lamp chair table desk mirror clock kettle jacket camera bottle wallet helmet".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
EVENTS = "concert meeting lecture party match workshop picnic market".split()
VARIABLES = "total count score sum value x y n".split()
UNITS = [("meters", "centimeters", 100), ("kilometers", "meters", 1000), ("kilograms", "grams", 1000),
         ("hours", "minutes", 60), ("minutes", "seconds", 60), ("weeks", "days", 7), ("days", "hours", 24),
         ("feet", "inches", 12), ("years", "months", 12), ("liters", "milliliters", 1000), ("pounds", "ounces", 16),
         ("yards", "feet", 3)]
