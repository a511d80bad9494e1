"""URLs of the buttons of lists."""

from django.urls import path

from elevata.lists import views

urlpatterns = [
    path("lists/filters/", views.FilterSave.as_view(), name="filter_save"),
    path("lists/filters/<uuid:key>/delete/", views.FilterDelete.as_view(), name="filter_delete"),
    path("lists/columns/", views.ColumnsChoose.as_view(), name="columns_choose"),
    path("favourites/", views.FavouriteToggle.as_view(), name="favourite"),
]
